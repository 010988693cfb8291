create table directory_lock (
    device integer not null, inode integer not null, record text not null,
    primary key (device, inode)
) without rowid;
create table fuse (id text primary key, state text not null, record text not null) without rowid;
create index pending_fuse on fuse (id) where state in ('armed', 'firing');

create table cursor (name text primary key, seq integer not null) without rowid;
create table tally (
    name text not null, labels text not null, le integer not null,
    count integer not null, sum integer not null,
    primary key (name, labels, le)
) without rowid;
insert into tally
    select 'turn-end', json_object('agent', agent, 'event', json_extract(body, '$.event')), 0,
           count(*), 0
    from event where kind = 'turn-end' and json_extract(body, '$.subagent') is null group by 2;

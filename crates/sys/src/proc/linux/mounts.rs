//! `/proc/self/mountinfo`, as pure functions on bytes.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mount<'a> {
    /// Its id, as `fdinfo` and `statx` name it.
    pub(super) id: u64,
    /// The device of its file system.
    pub(super) device: (u32, u32),
    /// The kind of file system.
    pub(super) kind: &'a [u8],
    /// The options of the file system itself.
    pub(super) options: &'a [u8],
}

/// All mounts; lines that are not understood are left out.
pub(super) fn parse_mounts(mountinfo: &[u8]) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.split(|&byte| byte == b'\n').filter_map(parse_line)
}

fn parse_line(line: &[u8]) -> Option<Mount<'_>> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = utf8_text(fields.next()?)?.parse().ok()?;
    let (major, minor) = utf8_text(fields.nth(1)?)?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    // Optional fields of any number end with a lone dash.
    fields.find(|&field| field == b"-")?;
    let kind = fields.next()?;
    let options = fields.nth(1)?;
    Some(Mount { id, device, kind, options })
}

fn utf8_text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Whether a process table mounted with these options hides other users' processes. A value that
/// is not known counts as hiding.
pub(super) fn hides_pids(options: &[u8]) -> bool {
    options
        .split(|&byte| byte == b',')
        .filter_map(|option| option.strip_prefix(b"hidepid="))
        .next_back()
        .is_some_and(|value| value != b"0" && value != b"off")
}

/// The mount id in the text of `/proc/self/fdinfo/<fd>`.
pub(super) fn mount_of_descriptor(fdinfo: &[u8]) -> Option<u64> {
    let line =
        fdinfo.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"mnt_id:"))?;
    utf8_text(line)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_with_and_without_optional_fields() {
        let text = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
            36 35 98:0 /mnt1 /mnt2 rw shared:1 master:2 - ext3 /dev/root rw,errors=continue\n\
            37 35 0:5 / /a\\040- rw - tmpfs none rw\n\
            half a line\n\n";
        let mounts: Vec<Mount> = parse_mounts(text).collect();
        assert_eq!(
            mounts,
            [
                Mount { id: 22, device: (0, 21), kind: b"proc", options: b"rw" },
                Mount { id: 36, device: (98, 0), kind: b"ext3", options: b"rw,errors=continue" },
                Mount { id: 37, device: (0, 5), kind: b"tmpfs", options: b"rw" },
            ]
        );
    }

    #[test]
    fn hidepid_in_its_spellings() {
        for (options, hides) in [
            ("rw", false),
            ("rw,hidepid=0", false),
            ("rw,hidepid=off", false),
            ("rw,gid=5,hidepid=1", true),
            ("rw,hidepid=2", true),
            ("rw,hidepid=4,subset=pid", true),
            ("rw,hidepid=noaccess", true),
            ("rw,hidepid=invisible", true),
            ("rw,hidepid=ptraceable", true),
            ("rw,hidepid=something-new", true),
            ("rw,nohidepid=2", false),
        ] {
            assert_eq!(hides_pids(options.as_bytes()), hides, "{options}");
        }
    }

    #[test]
    fn the_mount_of_a_descriptor() {
        assert_eq!(mount_of_descriptor(b"pos:\t0\nflags:\t02\nmnt_id:\t22\nino:\t1\n"), Some(22));
        assert_eq!(mount_of_descriptor(b"pos:\t0\n"), None);
    }
}

//! `KERN_PROCARGS2`: the arguments and the environment of a process, in one block of bytes.

use std::ffi::{OsStr, OsString, c_int};
use std::os::unix::ffi::OsStrExt;

/// The block, as the kernel copies it from the top of the process's stack: the number of
/// arguments, the executable's path, padding, the arguments, the environment.
pub(super) struct ProcArgsBlock(Vec<u8>);

/// Arguments and environment.
type Strings<'a> = (Vec<&'a [u8]>, Vec<&'a [u8]>);

/// Reads the block of a process of our own user; `None` for others.
pub(super) fn read_block(pid: u32) -> Option<ProcArgsBlock> {
    let pid = c_int::try_from(pid).ok()?;
    let mut name = [libc::CTL_KERN, libc::KERN_ARGMAX];
    let mut most: c_int = 0;
    let mut size = size_of::<c_int>();
    // SAFETY: the name has two elements; the kernel writes at most `size` bytes to `most`.
    let answer = unsafe {
        libc::sysctl(
            name.as_mut_ptr(),
            2,
            (&raw mut most).cast(),
            &raw mut size,
            std::ptr::null_mut(),
            0,
        )
    };
    if answer != 0 {
        return None;
    }
    let mut block = vec![0_u8; usize::try_from(most).ok()?];
    let mut name = [libc::CTL_KERN, libc::KERN_PROCARGS2, pid];
    let mut size = block.len();
    // SAFETY: the name has three elements; the kernel writes at most `size` bytes to the block
    // and says in `size` how many.
    let answer = unsafe {
        libc::sysctl(
            name.as_mut_ptr(),
            3,
            block.as_mut_ptr().cast(),
            &raw mut size,
            std::ptr::null_mut(),
            0,
        )
    };
    if answer != 0 {
        return None;
    }
    block.truncate(size);
    Some(ProcArgsBlock(block))
}

impl ProcArgsBlock {
    pub(super) fn arguments(&self) -> Vec<String> {
        let Some((arguments, _)) = self.split() else {
            return Vec::new();
        };
        arguments.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
    }

    /// The value of one variable.
    pub(super) fn environ_variable(&self, name: &str) -> Option<OsString> {
        let (_, environment) = self.split()?;
        environment.iter().find_map(|entry| {
            let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(OsStr::from_bytes(value).to_owned())
        })
    }

    fn split(&self) -> Option<Strings<'_>> {
        let (count, rest) = self.0.split_first_chunk::<4>()?;
        let count = usize::try_from(i32::from_ne_bytes(*count)).ok()?;
        let end_of_path = rest.iter().position(|&byte| byte == 0)?;
        let rest = &rest[end_of_path..];
        let padding = rest.iter().take_while(|&&byte| byte == 0).count();
        let mut strings: Vec<&[u8]> = rest[padding..].split(|&byte| byte == 0).collect();
        let environment = strings.split_off(count.min(strings.len()));
        Some((strings, environment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_environment_are_told_apart() {
        let mut bytes = 2_i32.to_ne_bytes().to_vec();
        bytes.extend(b"/bin/agent\0\0\0\0agent\0--x\0A=1\0AB=2\0\0");
        let block = ProcArgsBlock(bytes);
        assert_eq!(block.arguments(), ["agent", "--x"]);
        assert_eq!(block.environ_variable("AB").unwrap(), "2");
        assert_eq!(block.environ_variable("--x"), None);
        assert!(ProcArgsBlock(vec![1, 2]).arguments().is_empty());
    }
}

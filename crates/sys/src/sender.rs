//! Who wrote what arrives on a connection (`SO_PASSCRED`): a descriptor may have been passed on since it was
//! connected, and the credentials of the peer are those of the process that connected.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use crate::socket::{PeerCredentials, peer_credentials};

/// Lets the kernel note the sender of everything that arrives on connections to this socket, from their first
/// byte on: what was sent before a connection asked for it has no sender.
pub fn attribute_senders(listener: &UnixListener) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_socket_passcred(listener, true)?;
    #[cfg(not(target_os = "linux"))]
    let _ = listener;
    Ok(())
}

/// A connection that tells who wrote what was read last.
#[derive(Debug)]
pub struct AttributedStream {
    stream: UnixStream,
    sender: PeerCredentials,
}

impl AttributedStream {
    /// Asks the kernel to name the sender of everything that arrives from now on.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        let sender = peer_credentials(&stream)?;
        #[cfg(target_os = "linux")]
        rustix::net::sockopt::set_socket_passcred(&stream, true)?;
        Ok(Self { stream, sender })
    }

    /// Who wrote what was read last; before anything was read, and where the system does not tell, who
    /// connected.
    pub const fn sender(&self) -> PeerCredentials {
        self.sender
    }
}

impl Read for AttributedStream {
    #[cfg(target_os = "linux")]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (received, sender) = receive_with_sender(&self.stream, buffer)?;
        if let Some(sender) = sender.filter(|_| received > 0) {
            self.sender = sender;
        }
        Ok(received)
    }

    #[cfg(not(target_os = "linux"))]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for AttributedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The kernel does not join what different processes wrote into one read.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "the safe wrapper takes the pid 0 of an unseen process for impossible"
)]
fn receive_with_sender(
    stream: &UnixStream,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<PeerCredentials>)> {
    use std::os::fd::AsRawFd;

    /// Room for the credentials and nothing else: descriptors that are sent along (`SCM_RIGHTS`) are not taken.
    const CONTROL_WORDS: usize = 4;
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: all of its fields are numbers and pointers, for which zero is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header names one buffer and the room for control data, both alive and of these sizes.
    let received =
        unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel filled the header in; the pointer is null or within `control`.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const header).as_ref() };
    let first = first
        .filter(|one| (one.cmsg_level, one.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_CREDENTIALS));
    let sender = first.and_then(|first| {
        // SAFETY: a message of this type is followed by these credentials.
        let ucred = unsafe { libc::CMSG_DATA(first).cast::<libc::ucred>().read_unaligned() };
        // Zero: no sender was noted, or it is a process that is not to be seen from here.
        let pid = u32::try_from(ucred.pid).ok().filter(|pid| *pid > 0)?;
        Some(PeerCredentials { pid: Some(pid), uid: ucred.uid, gid: ucred.gid })
    });
    Ok((received, sender))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn l12_what_a_process_writes_through_a_passed_descriptor_is_its_own() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut stream = AttributedStream::new(ours).unwrap();
        let mut read = |expected: &[u8]| {
            let mut bytes = vec![0; expected.len()];
            stream.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, expected);
            stream.sender().pid.unwrap()
        };
        (&theirs).write_all(b"one").unwrap();
        assert_eq!(read(b"one"), std::process::id());
        let passed = OwnedFd::from(theirs.try_clone().unwrap());
        let mut child = Command::new("echo")
            .args(["-n", "two"])
            .stdin(Stdio::null())
            .stdout(Stdio::from(passed))
            .spawn()
            .unwrap();
        child.wait().unwrap();
        (&theirs).write_all(b"three").unwrap();
        assert_eq!(read(b"two"), child.id());
        assert_eq!(read(b"three"), std::process::id());
    }

    /// What was sent before the connection was accepted has a sender, too.
    #[test]
    fn l12_the_first_bytes_of_a_connection_name_their_sender() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        attribute_senders(&listener).unwrap();
        let theirs = UnixStream::connect(&path).unwrap();
        let passed = OwnedFd::from(theirs.try_clone().unwrap());
        let mut child =
            Command::new("echo").arg("early").stdout(Stdio::from(passed)).spawn().unwrap();
        child.wait().unwrap();
        let mut stream = AttributedStream::new(listener.accept().unwrap().0).unwrap();
        assert_eq!(stream.sender().pid, Some(std::process::id()), "who connected");
        let mut bytes = [0; 6];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(stream.sender().pid, Some(child.id()));
    }

    /// Without a noted sender, it is the process that connected.
    #[test]
    fn bytes_without_a_sender_are_those_of_the_peer() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"early").unwrap();
        let mut stream = AttributedStream::new(ours).unwrap();
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).unwrap();
        assert!(stream.sender().is_us());
    }

    #[test]
    fn the_end_of_a_connection_is_read_and_answers_are_written() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut stream = AttributedStream::new(ours).unwrap();
        assert!(stream.sender().is_us());
        stream.write_all(b"answer").unwrap();
        let mut bytes = [0; 6];
        theirs.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"answer");
        drop(theirs);
        assert_eq!(stream.read(&mut bytes).unwrap(), 0);
    }
}

//! Timers that can be polled (timerfd): one by the clock on the wall, which also wakes when that clock is set, and one
//! by the time since boot, which goes on while the machine sleeps.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::time::Time;

/// Wakes at the earlier of two times.
#[derive(Debug)]
pub struct WakeTimer {
    #[cfg(target_os = "linux")]
    wall: std::os::fd::OwnedFd,
    #[cfg(target_os = "linux")]
    boot: std::os::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
impl WakeTimer {
    /// A timer that is not set.
    pub fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self {
            wall: timerfd_create(TimerfdClockId::Realtime, flags)?,
            boot: timerfd_create(TimerfdClockId::Boottime, flags)?,
        })
    }

    /// Sets it; what is none does not wake.
    pub fn set(&self, wall: Option<Time>, since_boot: Option<Duration>) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A time of zero would unset it: what is due is due in the first nanosecond.
        let spec = |due: Option<Duration>| Itimerspec {
            it_interval: zero,
            it_value: due.map_or(zero, |due| Timespec {
                tv_sec: i64::try_from(due.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(due.subsec_nanos().max(1)),
            }),
        };
        let wall = wall.map(|at| at.since(Time::from_millis(0)));
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&self.wall, flags, &spec(wall))?;
        timerfd_settime(&self.boot, TimerfdTimerFlags::ABSTIME, &spec(since_boot))?;
        Ok(())
    }

    /// What to poll for reading.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        vec![self.wall.as_fd(), self.boot.as_fd()]
    }

    /// Forgets that it woke.
    pub fn clear(&self) {
        let mut count = [0u8; 8];
        for timer in [&self.wall, &self.boot] {
            // Nothing to read, or the clock was set: either way there is nothing to forget.
            while rustix::io::read(timer, &mut count).is_ok_and(|read| read > 0) {}
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl WakeTimer {
    /// A timer that is not set.
    pub fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Here a waiter polls every [`crate::watch::POLL_INTERVAL`].
    pub fn set(&self, _: Option<Time>, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    /// There is nothing to poll.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Nothing to forget.
    pub fn clear(&self) {}
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::watch::poll_readable;

    #[test]
    fn a_timer_wakes_at_its_time_and_once() {
        let timer = WakeTimer::new().unwrap();
        let is_awake = |wait| poll_readable(&timer.descriptors(), Some(wait)).unwrap();
        assert_eq!(is_awake(Duration::ZERO), [false, false]);
        let soon = crate::clock::time_since_boot() + Duration::from_millis(20);
        timer.set(None, Some(soon)).unwrap();
        assert_eq!(is_awake(Duration::from_secs(20)), [false, true]);
        assert!(crate::clock::time_since_boot() >= soon);
        timer.clear();
        assert_eq!(is_awake(Duration::ZERO), [false, false]);
        timer.set(Some(crate::clock::now()), None).unwrap();
        assert_eq!(is_awake(Duration::from_secs(20)), [true, false], "a time that is past wakes");
    }
}

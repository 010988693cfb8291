//! Tuning of glibc's allocator (`mallopt`).

/// Prepares for half a million small allocations from several threads that are all needed until the
/// end: memory is taken from the system in large steps. glibc would otherwise grow a thread's heap
/// page by page, each step a system call that stops the other threads.
pub fn expect_many_small_allocations() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const HEAP_GROWTH_BYTES: libc::c_int = 8 << 20;
        #[expect(unsafe_code, reason = "glibc offers this only as a C function")]
        // SAFETY: mallopt only changes settings of the allocator, and takes its own lock.
        unsafe {
            libc::mallopt(libc::M_TOP_PAD, HEAP_GROWTH_BYTES);
            libc::mallopt(libc::M_TRIM_THRESHOLD, 4 * HEAP_GROWTH_BYTES);
            // Large buffers come and go; given back, they would have to be cleared again.
            libc::mallopt(libc::M_MMAP_THRESHOLD, HEAP_GROWTH_BYTES);
        }
    }
}

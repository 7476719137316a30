//! Random numbers: the kernel's, and what can be had when its generator is not ready, as early in a boot it may not be.

use crate::sys::time;
use crate::sys::time::Deadline;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, read};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};

/// Milliseconds that the kernel's generator may take to become ready. Since Linux 5.18 a read of `/dev/urandom` makes it collect.
const READY_MS: u64 = 700;
/// Readings of the clock that go into a seed: the time between two of them varies by the processor's state.
const READINGS: usize = 4096;
/// Bytes of a seed and of each block that is made of it.
const BLOCK_LEN: usize = 32;

/// Whether this process has waited for the generator: it does so once. (A child goes on from what its parent knew.)
static WAITED: AtomicBool = AtomicBool::new(false);

/// Fills `buf`, within a second. From the kernel's generator, if that is ready by then; else from all there is, mixed by SHA-256:
/// `/dev/urandom`, the processor's generator and the jitter of the clock. An error says that neither of the first two was there.
pub fn fill(buf: &mut [u8]) -> Result<(), Errno> {
    if ready_fill(buf) {
        return Ok(());
    }
    let mut seed = [0; BLOCK_LEN];
    let urandom = open(c"/dev/urandom").and_then(|urandom| read(&urandom, &mut seed));
    if let Some(random) = open(c"/dev/random").ok().filter(|_| !WAITED.swap(true, Ordering::Relaxed)) {
        wait(&random);
        if ready_fill(buf) {
            return Ok(());
        }
    }
    mixed_fill(buf, urandom.map(|_| seed))
}

/// Whether the kernel's generator is ready. Where it is not, keys may be guessed by who knows the machine: a thing to warn of.
pub fn is_ready() -> bool {
    ready_fill(&mut [0])
}

/// Fills `buf` from what `/dev/urandom` gave and whatever else there is.
fn mixed_fill(buf: &mut [u8], urandom: Result<[u8; BLOCK_LEN], Errno>) -> Result<(), Errno> {
    let processor = processor();
    if let (Err(error), None) = (urandom, processor) {
        return Err(error);
    }
    let mut mix = Sha256::new();
    mix.update(urandom.unwrap_or_default());
    mix.update(processor.unwrap_or_default());
    for _ in 0..READINGS {
        mix.update(time::boot_nanoseconds().to_ne_bytes());
    }
    mix.update(time::realtime_s().to_ne_bytes());
    let mixed = mix.finalize();
    for (number, block) in (0u64..).zip(buf.chunks_mut(BLOCK_LEN)) {
        let digest = Sha256::new().chain_update(mixed).chain_update(number.to_ne_bytes()).finalize();
        for (to, from) in block.iter_mut().zip(digest) {
            *to = from;
        }
    }
    Ok(())
}

/// Fills `buf` from the kernel's generator, if that can be done without waiting.
fn ready_fill(buf: &mut [u8]) -> bool {
    let mut rest = buf;
    while !rest.is_empty() {
        match getrandom(&mut *rest, GetRandomFlags::NONBLOCK) {
            Ok(len) => rest = rest.get_mut(len..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Not ready, not there (before Linux 3.17), or forbidden.
            Err(_) => return false,
        }
    }
    true
}

fn open(path: &CStr) -> Result<rustix::fd::OwnedFd, Errno> {
    openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
}

/// Waits until `/dev/random` can be read, which is when the generator is ready.
fn wait(random: &rustix::fd::OwnedFd) {
    let deadline = Deadline::after_ms(READY_MS);
    loop {
        let left = Timespec { tv_sec: 0, tv_nsec: (deadline.left_ms().min(READY_MS) * 1_000_000) as _ };
        match poll(&mut [PollFd::new(random, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) if !deadline.passed() => {}
            _ => return,
        }
    }
}

/// A seed from the processor's own generator.
#[cfg(target_arch = "x86_64")]
fn processor() -> Option<[u8; BLOCK_LEN]> {
    use core::arch::x86_64::{__cpuid, _rdrand64_step};
    /// Bit of leaf 1, ECX, that says that the instruction is there.
    const RDRAND: u32 = 1 << 30;
    /// Tries for each number, as its makers advise.
    const TRIES: usize = 10;

    #[target_feature(enable = "rdrand")]
    fn number() -> Option<u64> {
        let mut number = 0;
        (0..TRIES).any(|_| _rdrand64_step(&mut number) == 1).then_some(number)
    }

    if __cpuid(1).ecx & RDRAND == 0 {
        return None;
    }
    let mut seed = [0; BLOCK_LEN];
    for part in seed.chunks_mut(8) {
        // SAFETY: the processor has the instruction, as it was asked above.
        let number = unsafe { number() }?;
        part.copy_from_slice(&number.to_ne_bytes());
    }
    // Some processors give all ones for ever after they woke from sleep.
    (seed != [0xff; BLOCK_LEN]).then_some(seed)
}

/// Other processors' generators are the kernel's alone.
#[cfg(not(target_arch = "x86_64"))]
fn processor() -> Option<[u8; BLOCK_LEN]> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_all_and_never_the_same() {
        assert!(is_ready());
        let urandom = [7; BLOCK_LEN];
        #[allow(clippy::type_complexity)] // said once
        let fills: [&dyn Fn(&mut [u8]) -> Result<(), Errno>; 3] =
            [&fill, &|buf| mixed_fill(buf, Ok(urandom)), &|buf| mixed_fill(buf, Ok([0; BLOCK_LEN]))];
        for fill in fills {
            let (mut one, mut two) = ([0; 100], [0; 100]);
            fill(&mut one).unwrap();
            fill(&mut two).unwrap();
            assert_ne!(one, two);
            // No block is like another, and none was left out.
            for buf in [one, two] {
                assert_ne!(buf[..32], buf[32..64]);
                assert!(buf.chunks(20).all(|part| part.iter().any(|byte| *byte != 0)));
            }
            fill(&mut []).unwrap();
        }
    }

    #[test]
    fn without_any_source_it_says_so() {
        let result = mixed_fill(&mut [0; 4], Err(Errno::NOENT));
        assert_eq!(result.is_err(), processor().is_none());
    }
}

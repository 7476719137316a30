//! The key-value exchange of Hyper-V by the kernel's device, for images without `hv_kvp_daemon`: it registers as that does, and answers the
//! host's requests from one record (Linux' `include/uapi/linux/hyperv.h`, `drivers/hv/hv_kvp.c` and `hv_utils_transport.c`).
//!
//! A message is a `struct hv_kvp_msg` in either direction. The host reads a pool by asking for record 0, 1, … until it is told that there
//! are no more. What else it asks for fails, as it does where no daemon is.

use crate::sys::Errno;
use crate::sys::file::File;
use crate::sys::time::Deadline;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a `struct hv_kvp_msg`.
pub const MESSAGE_LEN: usize = 7432;
/// Operations: the first byte.
const GET: u8 = 0;
const ENUMERATE: u8 = 3;
const REGISTER: u8 = 100;
/// Pool from the guest to the host: the second byte.
const GUEST: u8 = 1;
/// Places of an enumeration's parts, and their lengths.
const INDEX_AT: usize = 4;
const KEY_AT: usize = 20;
const KEY_LEN: usize = 512;
const VALUE_AT: usize = 532;
const VALUE_LEN: usize = 2048;
/// The place of the key that is asked for alone.
const GET_KEY_AT: usize = 16;
/// Answers, in the place of operation and pool: done, there is no such record, and refused.
const OK: u32 = 0;
const NO_MORE: u32 = 0x8007_0103;
const FAIL: u32 = 0x8000_4005;
/// Milliseconds for the host to see the end of the pool, once it has the record.
const END_MS: u64 = 1_000;

/// Progress of the exchange.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// The kernel was told.
    Begun,
    /// It has said that it knows of us.
    Registered,
    /// The host has the record.
    Taken,
    /// It has seen that there is no other.
    Over,
}

/// The device, and the record behind it.
pub struct Exchange {
    device: File,
    key: &'static str,
    value: Vec<u8>,
    step: Step,
    /// A message, and how much of it has come.
    message: Vec<u8>,
    len: usize,
}

impl Exchange {
    /// Registers at the device; the host is answered with this key and value, which end before their first NUL.
    pub(in crate::cloud) fn new(device: File, key: &'static str, value: &str, until: Deadline) -> Result<Self, Errno> {
        let mut message = vec![0; MESSAGE_LEN];
        if let Some(operation) = message.first_mut() {
            *operation = REGISTER;
        }
        device.write(&message, until)?;
        Ok(Self { device, key, value: value.as_bytes().to_vec(), step: Step::Begun, message, len: 0 })
    }

    /// Answers the host until the exchange has come as far as `goal`, or `until`; gives how far it came. Once the host has the record, it is
    /// waited for no longer than it takes to ask for the next.
    pub(in crate::cloud) fn serve(&mut self, goal: Step, until: Deadline) -> Result<Step, Errno> {
        let mut until = until;
        while self.step < goal && self.device.wait(until) {
            match self.device.read(self.message.get_mut(self.len..).unwrap_or_default()) {
                Ok(0) => return Err(Errno::IO),
                Ok(len) => self.len = self.len.saturating_add(len),
                Err(Errno::AGAIN) => {}
                Err(e) => return Err(e),
            }
            if self.len < MESSAGE_LEN {
                continue;
            }
            self.len = 0;
            let before = self.step;
            if answer(&mut self.message, self.key.as_bytes(), &self.value, &mut self.step) {
                match self.device.write(&self.message, until) {
                    // It waited for too long, and has answered in our place.
                    Ok(()) | Err(Errno::INVAL) => {}
                    Err(e) => return Err(e),
                }
            }
            if self.step == Step::Taken && before < Step::Taken {
                until = until.step_ms(END_MS);
            }
        }
        Ok(self.step)
    }
}

/// Makes the answer to a message of the kernel's, [`MESSAGE_LEN`] long, in its place, and gives whether there is one. Where the record is in it, or an end behind
/// the record, `step` goes on.
pub fn answer(message: &mut [u8], key: &[u8], value: &[u8], step: &mut Step) -> bool {
    let (operation, pool) = message.first_chunk().map_or((0, 0), |[operation, pool]| (*operation, *pool));
    let is_ours =
        message.get(GET_KEY_AT..).and_then(|rest| rest.strip_prefix(key)).is_some_and(|rest| rest.first() == Some(&0));
    let is_first = message.get(INDEX_AT..INDEX_AT + 4) == Some(&[0; 4]);
    let (result, reached) = match (operation, pool) {
        (REGISTER, _) if *step == Step::Begun => {
            *step = Step::Registered;
            return false;
        }
        (ENUMERATE, GUEST) if is_first => (OK, Step::Taken),
        (ENUMERATE, GUEST) if *step >= Step::Taken => (NO_MORE, Step::Over),
        (GET, GUEST) if is_ours => (OK, Step::Taken),
        (ENUMERATE, _) | (GET, GUEST) => (NO_MORE, *step),
        _ => (FAIL, *step),
    };
    *step = reached.max(*step);
    if result == OK {
        // The kernel takes the value of either from where an enumeration has it.
        if operation == ENUMERATE {
            fill(message.get_mut(KEY_AT..KEY_AT + KEY_LEN), key);
        }
        fill(message.get_mut(VALUE_AT..VALUE_AT + VALUE_LEN), value);
    }
    if let Some(place) = message.first_chunk_mut() {
        *place = result.to_ne_bytes();
    }
    true
}

/// Fills `place` with a text and NULs behind it, at least one.
fn fill(place: Option<&mut [u8]>, text: &[u8]) {
    let place = place.unwrap_or_default();
    let most = place.len().saturating_sub(1);
    for (n, to) in place.iter_mut().enumerate() {
        *to = text.get(n).copied().filter(|_| n < most).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"PROVISIONING_REPORT";

    /// What the kernel writes: its beginning, and nothing but NULs behind.
    fn asked(begin: &[u8]) -> [u8; MESSAGE_LEN] {
        let mut message = [0; MESSAGE_LEN];
        message[..begin.len()].copy_from_slice(begin);
        message
    }

    fn text(part: &[u8]) -> &[u8] {
        part.split(|b| *b == 0).next().unwrap()
    }

    #[test]
    fn the_whole_of_an_exchange() {
        let mut step = Step::Begun;
        // The version of the kernel's side.
        assert!(!answer(&mut asked(b"\x64\0\0\x003.1"), KEY, b"value", &mut step));
        assert_eq!(step, Step::Registered);
        // Other pools have nothing, and nothing is taken from the host.
        for (begin, result) in [
            (&b"\x03\x02\0\0"[..], *b"\x03\x01\x07\x80"),
            (b"\x03\0\0\0", *b"\x03\x01\x07\x80"),
            (b"\x01\0\0\0", *b"\x05\x40\x00\x80"),
            (b"\x02\x01\0\0", *b"\x05\x40\x00\x80"),
            (b"\x04\0\0\0", *b"\x05\x40\x00\x80"),
            (b"\x05\0\0\0", *b"\x05\x40\x00\x80"),
            (b"\x64\0\0\0", *b"\x05\x40\x00\x80"),
            (b"\xff\xff\xff\xff", *b"\x05\x40\x00\x80"),
        ] {
            let mut message = asked(begin);
            assert!(answer(&mut message, KEY, b"value", &mut step));
            assert_eq!((&message[..4], step), (&result[..], Step::Registered), "{begin:?}");
        }
        let mut message = asked(b"\x03\x01\0\0\0\0\0\0");
        assert!(answer(&mut message, KEY, b"value", &mut step));
        assert_eq!(
            (&message[..4], text(&message[20..532]), text(&message[532..2580])),
            (&[0; 4][..], KEY, &b"value"[..])
        );
        assert_eq!(step, Step::Taken);
        let mut message = asked(b"\x03\x01\0\0\x01\0\0\0");
        assert!(answer(&mut message, KEY, b"value", &mut step));
        assert_eq!((&message[..4], step), (&b"\x03\x01\x07\x80"[..], Step::Over));
    }

    #[test]
    fn a_record_by_its_key() {
        for (key, result, reached) in [
            (KEY, 0, Step::Taken),
            (b"PROVISIONING_REPORT2", NO_MORE, Step::Registered),
            (b"", NO_MORE, Step::Registered),
        ] {
            let mut step = Step::Registered;
            let mut message = asked(b"\0\x01");
            message[16..16 + key.len()].copy_from_slice(key);
            assert!(answer(&mut message, KEY, b"value", &mut step));
            assert_eq!((&message[..4], step), (&u32::to_ne_bytes(result)[..], reached));
            assert_eq!(text(&message[532..2580]), if result == 0 { &b"value"[..] } else { b"" });
        }
    }

    #[test]
    fn what_is_too_long_is_cut_and_ends() {
        let mut message = asked(b"\x03\x01");
        assert!(answer(&mut message, &[b'k'; 600], &[b'v'; 3000], &mut Step::Registered));
        assert_eq!((text(&message[20..532]).len(), text(&message[532..2580]).len()), (511, 2047));
    }
}

//! todo
/// todo
pub fn main(_: crate::sys::process::Args) -> u8 {
    0
}

//! Prints how fast each algorithm seals records of 16 KB, as this build has it: `cargo run --release -p rdreport-aead --example speed`.

use rdreport_aead::Algorithm;
use std::time::Instant;

/// Records of one run; the fastest of several runs counts, since others use the machine as well.
const RECORDS: usize = 200;
const RUNS: usize = 20;

fn main() {
    for (name, algorithm) in [
        ("AES-128-GCM", Algorithm::Aes128Gcm),
        ("AES-256-GCM", Algorithm::Aes256Gcm),
        ("ChaCha20-Poly1305", Algorithm::ChaCha20Poly1305),
    ] {
        let cipher = algorithm.keyed(&vec![7; algorithm.key_len()]).expect("a key of its length");
        let mut record = vec![0; 1 << 14];
        let run = |_| {
            let start = Instant::now();
            for _ in 0..RECORDS {
                cipher.seal(&[1; 12], &[2; 5], &mut record).expect("16 KB can be sealed");
            }
            (RECORDS << 14) as f64 / start.elapsed().as_secs_f64() / 1e6
        };
        let best = (0..RUNS).map(run).fold(0.0, f64::max);
        println!("{name}: {best:.0} MB/s");
    }
}

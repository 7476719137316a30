//! Link arguments for a static musl binary, the build's date, and the root certificates as plain bytes. No code generation.
//!
//! Built for `*-unknown-linux-musl`, rustc brings musl itself. Built for `*-unknown-linux-gnu` (the toolchain that everyone has), the
//! system's `musl-dev` is linked instead of glibc: its start files, and its `libc.a` from a folder that holds no `libc.so`, since rustc
//! passes `-Bdynamic -lc` and a folder with both would be linked dynamically.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=link.ld");
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo:rerun-if-env-changed=MUSL_LIB_DIR");
    println!("cargo:rustc-env=RDREPORT_BUILD_DATE={}", build_date());

    let target = env::var("TARGET").unwrap();
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap();
    if !target.contains("-linux-") {
        panic!("rdreport is a Linux program; the target {target} is not Linux");
    }
    match env::var("CARGO_CFG_TARGET_ENV").as_deref() {
        Ok("gnu") => link_musl_into_gnu(&arch),
        // rustc brings it, and names it only to programs that use `std` or the crate `libc`.
        _ => println!("cargo:rustc-link-arg-bins=-lc"),
    }
    link_small(take_lld());
    #[cfg(feature = "roots")]
    write_roots();
}

/// Mozilla's root certificates as `src/net/tls/roots.rs` reads them: of each the subject, the public key and the name constraints, each behind its
/// length in two bytes, little-endian. As a table of pointers, which `webpki-roots` offers, they take 8 KB more.
#[cfg(feature = "roots")]
fn write_roots() {
    let mut flat = Vec::new();
    for root in webpki_roots::TLS_SERVER_ROOTS {
        for field in [Some(&root.subject), Some(&root.subject_public_key_info), root.name_constraints.as_ref()] {
            let bytes = field.map_or(&[][..], |field| field);
            flat.extend(u16::try_from(bytes.len()).expect("a root's field of more than 64 KB").to_le_bytes());
            flat.extend(bytes);
        }
    }
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    fs::write(out.join("roots"), flat).expect("cannot write the root certificates");
}

/// Seconds since the epoch, at midnight UTC: two builds of one day are the same. `SOURCE_DATE_EPOCH` (reproducible-builds.org) wins.
fn build_date() -> u64 {
    let now = match env::var("SOURCE_DATE_EPOCH") {
        Ok(s) => s.trim().parse().expect("SOURCE_DATE_EPOCH: not a number of seconds"),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
    };
    now - now % 86_400
}

fn link_musl_into_gnu(arch: &str) {
    let dir = musl_dir(arch).unwrap_or_else(|| {
        panic!(
            "\n\nrdreport links musl statically, and no musl for {arch} was found. Install one of:\n\
             \x20 Debian, Ubuntu:  apt-get install musl-dev\n\
             \x20 Fedora:          dnf install musl-libc-static musl-devel\n\
             \x20 Arch:            pacman -S musl\n\
             or: rustup target add {arch}-unknown-linux-musl, and build with --target {arch}-unknown-linux-musl\n\
             or set MUSL_LIB_DIR to the folder that holds musl's libc.a and crt1.o.\n"
        )
    });
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    fs::copy(dir.join("libc.a"), out.join("libc.a")).expect("cannot copy musl's libc.a");
    // rustc's own crates ask for these by name on a gnu target; with panic=abort nothing of them is used.
    for name in ["libgcc_s.a", "libutil.a", "librt.a", "libpthread.a", "libm.a", "libdl.a"] {
        fs::write(out.join(name), b"!<arch>\n").expect("cannot write an empty archive");
    }
    for flag in ["-nostdlib", "-nostartfiles", "-static", "-no-pie"] {
        println!("cargo:rustc-link-arg-bins={flag}");
    }
    println!("cargo:rustc-link-arg-bins=-L{}", out.display());
    for file in ["crt1.o", "crti.o", "crtn.o"] {
        println!("cargo:rustc-link-arg-bins={}", dir.join(file).display());
    }
    println!("cargo:rustc-link-arg-bins=-lc");
}

/// The folder with musl's `libc.a` and `crt1.o`: asked for, then what the musl compilers say, then where distributions are known to put it.
fn musl_dir(arch: &str) -> Option<PathBuf> {
    let is_musl = |dir: &Path| dir.join("libc.a").is_file() && dir.join("crt1.o").is_file() && !is_glibc(dir);
    let mut places = Vec::new();
    if let Some(dir) = env::var_os("MUSL_LIB_DIR") {
        places.push(PathBuf::from(dir));
    }
    for compiler in [format!("{arch}-linux-musl-gcc"), "musl-gcc".into()] {
        if let Ok(answer) = Command::new(compiler).arg("-print-file-name=libc.a").output() {
            let file = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
            places.extend(Path::new(&file).parent().map(Path::to_path_buf));
        }
    }
    for lib in ["lib", "lib64", ""] {
        for prefix in ["/usr", "/usr/local", "/opt", ""] {
            places.push(Path::new("/").join(prefix).join(lib).join(format!("{arch}-linux-musl")));
            places.push(Path::new("/").join(prefix).join(format!("{arch}-linux-musl")).join(lib));
            places.push(Path::new("/").join(prefix).join("musl").join(lib));
            places.push(Path::new("/").join(prefix).join(lib).join("musl").join("lib"));
        }
    }
    places.push("/usr/lib".into());
    places.into_iter().find(|dir| is_musl(dir))
}

/// glibc keeps `libc_nonshared.a` beside its archive; musl has no such file.
fn is_glibc(dir: &Path) -> bool {
    dir.join("libc_nonshared.a").is_file()
}

/// Takes LLVM's linker, which rustc brings, but takes by itself only for x86-64 with glibc; gives whether there is one.
fn take_lld() -> bool {
    let output_of = |program: &Path, argument: &[&str]| {
        let output = Command::new(program).args(argument).output();
        output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let sysroot = output_of(Path::new(&env::var_os("RUSTC").unwrap()), &["--print", "sysroot"]);
    let rustc_s = Path::new(sysroot.trim()).join("lib/rustlib").join(env::var("HOST").unwrap()).join("bin/gcc-ld");
    let path = env::var_os("PATH").unwrap_or_default();
    let mut dirs = [rustc_s].into_iter().chain(env::split_paths(&path));
    // One of before LLVM 20 does not know all that is asked of it.
    let dir = dirs.find(|dir| output_of(&dir.join("ld.lld"), &["--help"]).contains(ORDER));
    let Some(dir) = dir else { return false };
    // A compiler for another machine does not look for it on the path.
    println!("cargo:rustc-link-arg-bins=-B{}", dir.display());
    println!("cargo:rustc-link-arg-bins=-fuse-ld=lld");
    true
}

/// Has lld lay functions that are alike together, which the compressors of initramfs images reward (1.3 KB with zstd -19).
const ORDER: &str = "--bp-compression-sort=";

/// Flags that make the file small. Each with its reason; figures in size-report.
fn link_small(is_lld: bool) {
    let script = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("link.ld");
    for flag in [
        // Unwind tables: nothing unwinds with panic=abort, but the prebuilt core and alloc carry them.
        &*format!("-Wl,-T,{}", script.display()),
        "-Wl,--no-eh-frame-hdr",
        "-Wl,--gc-sections",
        "-Wl,--build-id=none",
        // No dynamic relocation exists to be protected after.
        "-Wl,-z,norelro",
        // Padding to whole pages between segments.
        "-Wl,-z,noseparate-code",
    ] {
        println!("cargo:rustc-link-arg-bins={flag}");
    }
    if !is_lld {
        println!("cargo:warning=no ld.lld of LLVM 20 or later was found: the binary becomes 3 KB larger");
        return;
    }
    // Functions with the same code become one.
    println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    println!("cargo:rustc-link-arg-bins=-Wl,{ORDER}function");
}

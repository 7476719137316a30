//! From a mangled Rust symbol to the crate that wrote the code, and to a name that people read.
//!
//! The rule, which `cargo bloat` and others also have to guess at in part:
//! 1. A function belongs to the crate that defines it, whatever types it is instantiated for: generic code is charged to its author.
//! 2. An implementation of a trait belongs to the crate it is written in. A v0 name holds that crate. A legacy name does not; there it is
//!    the type's crate, or the trait's if the type belongs to the standard library and the trait does not (the orphan rule).
//! 3. Drop glue is nobody's code; it belongs to the crate of the type that is dropped.
//!
//! Mangling: <https://doc.rust-lang.org/rustc/symbol-mangling/v0.html>; the legacy form has no specification.

const STANDARD: [&str; 3] = ["core", "alloc", "std"];
const DROP_GLUE: &str = "core::ptr::drop_in_place";

/// The demangled name without its hash; `None` if the symbol is not Rust's.
pub fn readable(mangled: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(mangled).ok()?;
    Some(format!("{name:#}"))
}

/// The crate that a mangled symbol belongs to; `None` if the symbol is not Rust's.
pub fn owner(mangled: &str) -> Option<String> {
    let name = readable(mangled)?;
    if let Some(glue) = name.strip_prefix(DROP_GLUE) {
        return Some(first_crate(glue).unwrap_or("core").to_owned());
    }
    let owner = v0_crate(mangled).or_else(|| crate_of_text(&name))?;
    Some(owner.to_owned())
}

/// The module directly under `krate` that a readable name speaks of first.
pub fn module<'n>(name: &'n str, krate: &str) -> Option<&'n str> {
    let mut rest = name;
    loop {
        let (before, after) = rest.split_once(krate)?;
        let path =
            after.strip_prefix("::").filter(|_| !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'));
        let module = path.and_then(|p| p.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next());
        if module.is_some_and(|m| !m.is_empty()) {
            return module;
        }
        rest = after;
    }
}

/// `<a::b::Type<T> as c::Trait>::method` is `Type::method`, `a::b::function` is `b::function`.
pub fn short(name: &str) -> String {
    let (of, rest) = match name.strip_prefix('<').and_then(|inside| Some((inside, split_impl(inside)?))) {
        Some((inside, (of, how))) => {
            let taken = how.map_or(of.len(), |how| of.len() + " as ".len() + how.len());
            (Some(of), &inside[taken + 1..])
        }
        None => (None, name),
    };
    let outer = |text: &str| {
        let mut depth = 0;
        let mut kept = String::new();
        for c in text.chars() {
            depth += i32::from(c == '<');
            if depth == 0 {
                kept.push(c);
            }
            depth -= i32::from(c == '>' && depth > 0);
        }
        kept
    };
    let path = [of.map(|of| outer(of) + "::").unwrap_or_default(), outer(rest)].concat();
    let parts: Vec<_> = path.split("::").filter(|p| !p.is_empty()).collect();
    parts[parts.len().saturating_sub(2)..].join("::")
}

/// The crate at the root of a v0 name's path: for an implementation, of the path where it is written.
fn v0_crate(mangled: &str) -> Option<&str> {
    let mut rest = mangled.strip_prefix("_R")?;
    loop {
        let tag = rest.chars().next()?;
        rest = rest.get(1..)?;
        match tag {
            'C' => return identifier(disambiguator(rest)?),
            'N' => rest = rest.get(1..)?,
            'M' | 'X' => rest = disambiguator(rest)?,
            'I' => {}
            // `Y`, an item of a trait definition, has no path of its own; anything else is no path.
            _ => return None,
        }
    }
}

/// Skips an optional `s` [base 62 number] `_`.
fn disambiguator(text: &str) -> Option<&str> {
    match text.strip_prefix('s') {
        Some(number) => number.split_once('_').map(|(_, rest)| rest),
        None => Some(text),
    }
}

/// [`u`] length [`_`] bytes
fn identifier(text: &str) -> Option<&str> {
    let text = text.strip_prefix('u').unwrap_or(text);
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (length, rest) = text.split_at(digits);
    rest.strip_prefix('_').unwrap_or(rest).get(..length.parse().ok()?)
}

/// The rule for a demangled name.
fn crate_of_text(name: &str) -> Option<&str> {
    let Some(inside) = name.strip_prefix('<') else {
        return first_crate(name);
    };
    let Some((of, how)) = split_impl(inside) else {
        return first_crate(name);
    };
    let of = first_crate(of);
    let how = how.and_then(first_crate);
    match (of, how) {
        (Some(of), Some(how)) if is_standard(of) && !is_standard(how) => Some(how),
        (of, how) => of.or(how),
    }
}

fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name)
}

/// `T as Trait>::method` into `T` and `Trait`; `T>::method` into `T` and nothing. The ` as ` of an inner `<A as B>` does not count.
fn split_impl(inside: &str) -> Option<(&str, Option<&str>)> {
    let mut depth = 1u32;
    let mut split = None;
    for (at, c) in inside.char_indices() {
        match c {
            '<' => depth += 1,
            // Not the arrow of a function's type.
            '>' if !inside[..at].ends_with('-') => depth -= 1,
            ' ' if depth == 1 && split.is_none() && inside[at..].starts_with(" as ") => split = Some(at),
            _ => {}
        }
        if depth == 0 {
            let end = &inside[..at];
            return Some(match split {
                Some(s) => (&end[..s], Some(&end[s + " as ".len()..])),
                None => (end, None),
            });
        }
    }
    None
}

/// The first identifier that is followed by `::`, which is a crate since all paths are absolute.
fn first_crate(text: &str) -> Option<&str> {
    let mut start = 0;
    for (at, c) in text.char_indices() {
        if c == ':' {
            let name = &text[start..at];
            if !name.is_empty() && text[at..].starts_with("::") {
                return Some(name);
            }
        }
        if !(c.is_ascii_alphanumeric() || c == '_') {
            start = at + c.len_utf8();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mangled: &str) -> String {
        owner(mangled).unwrap_or_else(|| "nobody".into())
    }

    #[test]
    fn v0_paths() {
        assert_eq!(of("_RNvMsa_NtCsgEmfK2I1SDS_4core3fmtNtB5_9Formatter3pad"), "core");
        assert_eq!(of("_RINvNtCsgEmfK2I1SDS_4core9panicking13assert_failedjjEB4_"), "core");
        // <alloc::string::String as core::fmt::Write>::write_str, in alloc
        assert_eq!(
            of("_RNvXs2_NtCslNYArtu3iFV_5alloc6stringNtB5_6StringNtNtCsgEmfK2I1SDS_4core3fmt5Write9write_str"),
            "alloc"
        );
    }

    #[test]
    fn v0_drop_glue_is_the_types() {
        let name = "_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeNtNtCslNYArtu3iFV_5alloc6string6StringEBK_";
        assert_eq!(of(name), "alloc");
    }

    #[test]
    fn legacy_paths() {
        assert_eq!(of("_ZN8rdreport3run4main17h37582c5c02a8354fE"), "rdreport");
        assert_eq!(of("_ZN4ring4aead7aes_gcm4open17hef5e4841cf3ed14aE"), "ring");
    }

    #[test]
    fn only_rust_symbols_have_a_crate() {
        for name in ["", "main", "memcpy", "_Z3foov", "_R", "_RNv", "_ZN"] {
            assert_eq!(owner(name), None, "{name}");
        }
    }

    #[test]
    fn an_implementation_is_where_it_is_written() {
        for (name, krate) in [
            ("<rustls::enums::CipherSuite as core::fmt::Debug>::fmt", "rustls"),
            ("rustls::enums::<impl core::convert::From<rustls::enums::X> for u16>::from", "rustls"),
            ("<alloc::vec::Vec<rustls::X> as rustls::msgs::codec::Codec>::encode", "rustls"),
            ("<alloc::vec::Vec<rustls::X> as core::clone::Clone>::clone", "alloc"),
            ("<alloc::vec::Vec<T,A> as alloc::vec::spec_extend::SpecExtend<T,I>>::spec_extend", "alloc"),
            ("<&T as core::fmt::Debug>::fmt", "core"),
            ("<F as webpki::Budget>::spend", "webpki"),
            ("<T as alloc::slice::<impl [T]>::to_vec_in::ConvertVec>::to_vec", "alloc"),
            ("<fn(u8) -> aes::Block as cipher::Run>::run", "aes"),
            ("<<a::B as c::D>::E as f::G>::h", "a"),
            ("<ruzstd::decoding::Frame>::new", "ruzstd"),
            ("<core::iter::Map<I,F> as core::iter::Iterator>::next", "core"),
        ] {
            assert_eq!(crate_of_text(name), Some(krate), "{name}");
        }
    }

    #[test]
    fn modules() {
        for (name, want) in [
            ("rdreport::net::dns::ask", Some("net")),
            ("<rdreport::http::Client as core::ops::Drop>::drop", Some("http")),
            ("table of <not_rdreport::a::B as rdreport::sink::Sink>::put", Some("sink")),
            ("core::ptr::drop_in_place<rdreport::journal::File>", Some("journal")),
            ("main", None),
            ("rdreport", None),
            ("rdreport::", None),
            ("", None),
        ] {
            assert_eq!(module(name, "rdreport"), want, "{name}");
        }
    }

    #[test]
    fn short_names() {
        for (name, want) in [
            ("<rustls::hs::ExpectHello as rustls::State<rustls::Data>>::handle", "ExpectHello::handle"),
            ("webpki::verify_cert::ChainOptions<V>::build_chain", "ChainOptions::build_chain"),
            ("rustls::enums::<impl core::convert::From<rustls::enums::X> for u16>::from", "enums::from"),
            ("core::ptr::drop_in_place<alloc::vec::Vec<u8>>", "ptr::drop_in_place"),
            ("memcpy", "memcpy"),
            ("<T>", "T"),
            ("<", ""),
            ("", ""),
        ] {
            assert_eq!(short(name), want, "{name}");
        }
    }

    #[test]
    fn nameless() {
        for name in ["", "<", "<>", "<u8", "u8", "<u8 as T>::x:y", "a:b"] {
            // No path that begins with a crate; what matters is that none of them is a panic.
            let _ = crate_of_text(name);
        }
        assert_eq!(first_crate("u8"), None);
        assert_eq!(first_crate("a:b"), None);
    }
}

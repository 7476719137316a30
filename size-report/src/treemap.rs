//! A picture of the file: an area for each owner, within it one for each function and constant. SVG, <https://www.w3.org/TR/SVG11/>.
//!
//! The layout is the squarified treemap of Bruls, Huizing and van Wijk, by the crate `treemap`. Equal input gives an equal picture.

use std::collections::BTreeMap;

use treemap::{MapItem, Mappable, Rect, TreemapLayout};

use crate::attribute::{HEADERS, Kind, LINKER, MUSL, PADDING, Piece, ROOTS, UNKNOWN, UNNAMED};
use crate::cargo::BINARY;
use crate::symbol;
use crate::table::number;

/// Units of the picture, which browsers show as pixels.
const WIDTH: f64 = 1280.0;
const HEIGHT: f64 = 800.0;
/// Above the map, for the title and the colours' meaning.
const HEAD: f64 = 46.0;
/// The strip of an owner's area that has its name.
const STRIP: f64 = 15.0;
/// Owners below this part of the file share one area with those of their category.
const SMALL_OWNER: f64 = 0.004;
/// Square units; within an owner, what would be smaller shares one area.
const SMALL_AREA: f64 = 220.0;
const FONT: f64 = 11.0;
/// Width of a letter as part of its height, on average.
const LETTER: f64 = 0.6;
const LINE: f64 = 12.5;
/// A label in lines of fewer letters is left out.
const FEWEST_LETTERS: usize = 5;
const MOST_LINES: usize = 3;

struct Category {
    name: &'static str,
    colour: &'static str,
    owners: &'static [&'static str],
}

const CATEGORIES: [Category; 7] = [
    Category { name: "rdreport's own code", colour: "#8fce8b", owners: &[BINARY] },
    Category { name: "TLS", colour: "#8db8ea", owners: &["rustls", "webpki", "rustls_pki_types", "untrusted"] },
    Category {
        name: "cryptography",
        colour: "#c0a9e8",
        owners: &[
            "aes",
            "aes_gcm",
            "aead",
            "block_buffer",
            "chacha20",
            "chacha20poly1305",
            "cipher",
            "cmov",
            "const_oid",
            "crypto_bigint",
            "crypto_common",
            "ctr",
            "ctutils",
            "curve25519_dalek",
            "der",
            "digest",
            "ecdsa",
            "elliptic_curve",
            "ff",
            "ghash",
            "group",
            "hkdf",
            "hmac",
            "hybrid_array",
            "inout",
            "p256",
            "p384",
            "poly1305",
            "polyval",
            "primefield",
            "primeorder",
            "rfc6979",
            "ring",
            "rsa",
            "sec1",
            "sha2",
            "signature",
            "subtle",
            "universal_hash",
            "wnaf",
            "x25519_dalek",
            "zeroize",
        ],
    },
    Category { name: "root certificates", colour: "#f6bd6b", owners: &[ROOTS] },
    Category {
        name: "compression",
        colour: "#7fd0c6",
        owners: &["adler2", "crc", "crc32fast", "miniz_oxide", "ruzstd"],
    },
    Category { name: "musl, core, alloc", colour: "#c9c9c9", owners: &[MUSL, "core", "alloc", "compiler_builtins"] },
    Category { name: "headers, padding", colour: "#e9e9e9", owners: &[HEADERS, PADDING, LINKER, UNNAMED, UNKNOWN] },
];
const OTHER: Category = Category { name: "other libraries", colour: "#eeaebb", owners: &[] };
/// An area of the picture with what it stands for.
struct Area<T> {
    item: MapItem,
    of: T,
}

impl<T> Area<T> {
    fn new(of: T, bytes: u64) -> Area<T> {
        Area { item: MapItem::with_size(bytes as f64), of }
    }
}

impl<T> Mappable for Area<T> {
    fn size(&self) -> f64 {
        self.item.size()
    }

    fn bounds(&self) -> &Rect {
        self.item.bounds()
    }

    fn set_bounds(&mut self, bounds: Rect) {
        self.item.set_bounds(bounds);
    }
}

/// What an area of the first level is divided into, by name; and whether it is code.
type Parts = BTreeMap<(String, bool), u64>;

struct Owner {
    name: String,
    colour: &'static str,
    parts: Parts,
}

/// The picture of a whole file.
pub fn draw(pieces: &[Piece]) -> String {
    let whole: u64 = pieces.iter().map(Piece::size).sum();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"{FONT}\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"4\" y=\"17\" font-size=\"15\" font-weight=\"bold\">{BINARY}: {} bytes, stripped</text>\n",
        number(whole)
    );
    svg += &legend(pieces);
    for owner in laid_out(owners(pieces, whole), Rect::from_points(0.0, HEAD, WIDTH, HEIGHT - HEAD)) {
        svg += &draw_owner(&owner);
    }
    svg + "</svg>\n"
}

/// The owners with their parts. The small ones of a category are one, of which they are the parts.
fn owners(pieces: &[Piece], whole: u64) -> Vec<Area<Owner>> {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for piece in pieces {
        *sizes.entry(&piece.owner).or_default() += piece.size();
    }
    let mut owners: BTreeMap<String, Owner> = BTreeMap::new();
    for piece in pieces {
        let category = category(&piece.owner);
        let (name, part) = if (sizes[&*piece.owner] as f64) < whole as f64 * SMALL_OWNER {
            (format!("{}, small", category.name), piece.owner.clone())
        } else {
            (piece.owner.clone(), part_name(piece))
        };
        let new = || Owner { name: name.clone(), colour: category.colour, parts: Parts::new() };
        let owner = owners.entry(name.clone()).or_insert_with(new);
        *owner.parts.entry((part, piece.kind == Kind::Code)).or_default() += piece.size();
    }
    let area = |owner: Owner| {
        let size = owner.parts.values().sum();
        Area::new(owner, size)
    };
    owners.into_values().map(area).collect()
}

fn laid_out<T>(mut areas: Vec<Area<T>>, bounds: Rect) -> Vec<Area<T>> {
    TreemapLayout::new().layout_items(&mut areas, bounds);
    areas
}

fn draw_owner(area: &Area<Owner>) -> String {
    let Owner { name: owner, colour, parts } = &area.of;
    let bounds = *area.bounds();
    let bytes = number(area.size() as u64);
    let mut svg = rect(bounds, colour, 1.0, &format!("{owner}: {bytes} bytes"));
    let strip = if bounds.h > STRIP * 2.5 { STRIP } else { 0.0 };
    let inner = Rect::from_points(bounds.x + 1.0, bounds.y + strip, bounds.w - 2.0, bounds.h - strip - 1.0);
    if strip > 0.0 {
        svg += &label(Rect { h: STRIP, ..bounds }, &format!("{owner} {bytes}"), " font-weight=\"bold\"");
    }
    let scale = inner.w * inner.h / area.size();
    let mut shown = Vec::new();
    let mut rest = (0, 0);
    for ((name, is_code), bytes) in parts {
        if *bytes as f64 * scale < SMALL_AREA {
            rest = (rest.0 + 1, rest.1 + bytes);
        } else {
            shown.push(Area::new((name.clone(), *is_code), *bytes));
        }
    }
    if rest.1 > 0 && !shown.is_empty() {
        shown.push(Area::new((format!("{} smaller", rest.0), true), rest.1));
    }
    for part in laid_out(shown, inner) {
        let (name, is_code) = &part.of;
        // Constants are paler than code.
        let opacity = if *is_code { 1.0 } else { 0.55 };
        svg +=
            &rect(*part.bounds(), colour, opacity, &format!("{owner}: {name}, {} bytes", number(part.size() as u64)));
        svg += &label(*part.bounds(), name, "");
    }
    if strip == 0.0 {
        svg += &label(bounds, owner, "");
    }
    svg
}

fn rect(r: Rect, colour: &str, opacity: f64, title: &str) -> String {
    // White below a pale part, so that it does not take its owner's colour.
    let under = if opacity < 1.0 { plain_rect(r, "#ffffff", 1.0) + "/>\n" } else { String::new() };
    format!("{under}{}><title>{}</title></rect>\n", plain_rect(r, colour, opacity), escape(title))
}

fn plain_rect(r: Rect, colour: &str, opacity: f64) -> String {
    let Rect { x, y, w, h } = r;
    let opacity = if opacity < 1.0 { format!(" fill-opacity=\"{opacity}\"") } else { String::new() };
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" fill=\"{colour}\"{opacity} stroke=\"#ffffff\" stroke-width=\"0.7\""
    )
}

/// At the top left of its area, in as many lines as it takes and there is room for; nothing where it would not be read.
fn label(r: Rect, text: &str, style: &str) -> String {
    let letters = (((r.w - 5.0) / (FONT * LETTER)).max(0.0)) as usize;
    let lines = ((r.h / LINE) as usize).min(MOST_LINES);
    let text: Vec<_> = text.chars().collect();
    if lines == 0 || letters < FEWEST_LETTERS.min(text.len()) {
        return String::new();
    }
    let mut svg = String::new();
    for (i, chunk) in text.chunks(letters).take(lines).enumerate() {
        let mut line: String = chunk.iter().collect();
        if i + 1 == lines && text.len() > letters * lines {
            line.pop();
            line.push('…');
        }
        let y = r.y + FONT + 0.5 + LINE * i as f64;
        svg += &format!("<text x=\"{:.1}\" y=\"{y:.1}\"{style}>{}</text>\n", r.x + 3.0, escape(&line));
    }
    svg
}

/// What the colours mean, and how much of the file each has.
fn legend(pieces: &[Piece]) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for piece in pieces {
        *sums.entry(category(&piece.owner).name).or_default() += piece.size();
    }
    let mut svg = String::new();
    let mut x = 4.0;
    for Category { name, colour, .. } in CATEGORIES.iter().chain([&OTHER]) {
        let Some(bytes) = sums.get(name) else { continue };
        let text = format!("{name} {}", number(*bytes));
        svg += &format!("<rect x=\"{x:.1}\" y=\"26\" width=\"12\" height=\"12\" fill=\"{colour}\"/>");
        svg += &format!("<text x=\"{:.1}\" y=\"36\">{text}</text>\n", x + 16.0);
        x += 24.0 + text.chars().count() as f64 * FONT * LETTER * 0.92;
    }
    svg
}

fn category(owner: &str) -> &'static Category {
    CATEGORIES.iter().find(|c| c.owners.contains(&owner)).unwrap_or(&OTHER)
}

/// The name of a piece within its owner. Nameless constants are one.
fn part_name(piece: &Piece) -> String {
    match piece.kind {
        Kind::Overhead => piece.name.clone(),
        Kind::Constant | Kind::Data if piece.name.starts_with("constant ") => "constants".into(),
        _ => symbol::short(&piece.name),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(owner: &str, name: &str, start: u64, end: u64) -> Piece {
        Piece { start, end, owner: owner.into(), name: name.into(), kind: Kind::Code }
    }

    fn pieces() -> Vec<Piece> {
        vec![piece("a", "a::b<c>::d & e", 0, 600), piece("rustls", "rustls::x", 600, 990), piece("tiny", "t", 990, 993)]
    }

    #[test]
    fn the_same_input_gives_the_same_picture() {
        assert_eq!(draw(&pieces()), draw(&pieces()));
    }

    #[test]
    fn small_owners_share_an_area_and_no_byte_is_lost() {
        let areas = owners(&pieces(), 993);
        let sizes: Vec<_> = areas.iter().map(|a| (&*a.of.name, a.size())).collect();
        assert_eq!(sizes, [("a", 600.0), ("other libraries, small", 3.0), ("rustls", 390.0)]);
    }

    #[test]
    fn names_are_escaped() {
        let svg = draw(&[piece("[x]", "<a::B as c::D>::e && f", 0, 10)]);
        assert!(!svg.contains("&& ") && !svg.contains("<a"), "{svg}");
    }

    #[test]
    fn labels_fit_or_are_left_out() {
        let room = |w, h| label(Rect::from_points(0.0, 0.0, w, h), "a_long_name", "");
        let lines = |svg: String| svg.matches("<text").count();
        assert!(room(200.0, 20.0).contains(">a_long_name<"));
        assert!(room(50.0, 20.0).contains("…<"));
        assert_eq!(lines(room(50.0, 40.0)), 2);
        assert!(!room(50.0, 40.0).contains('…'));
        for (w, h) in [(20.0, 20.0), (200.0, 5.0), (0.0, 20.0), (-1.0, -1.0)] {
            assert_eq!(room(w, h), "");
        }
    }
}

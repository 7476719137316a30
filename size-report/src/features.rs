//! What each feature costs: the difference between the default build and one that lacks it, or has it in addition.

use crate::cargo::{Features, Workspace};
use crate::measure::{FILE, sizes};
use crate::table::{Table, change, number};

/// A build and what it is called in the table.
#[derive(Debug, PartialEq)]
struct Variant {
    name: String,
    arguments: Vec<String>,
    /// Whether it lacks something, so that the cost is what the default build has more.
    lacks: bool,
}

/// The measures shown: what the binary takes on disk, and in a compressed initramfs.
const MEASURES: [&str; 2] = [FILE, "zstd-19"];

/// The table, and whether everything could be built: a combination that cannot is a fault.
pub fn costs(workspace: &Workspace) -> Result<(Table, bool), String> {
    let features = workspace.features()?;
    let columns = ["build", ">file", ">zstd-19", ">costs: file", ">zstd-19"];
    let mut table = Table::new("What each feature costs, in bytes", &columns);
    let base = measure(workspace, &[])?;
    table.row(["default".into(), number(base[0]), number(base[1]), "-".into(), "-".into()]);
    let mut all_built = true;
    for variant in variants(&features) {
        let Ok(here) = measure(workspace, &variant.arguments) else {
            all_built = false;
            table.row([variant.name, "does not build".into()]);
            continue;
        };
        let cost = |i: usize| {
            let more = here[i] as i64 - base[i] as i64;
            change(if variant.lacks { -more } else { more })
        };
        table.row([variant.name.clone(), number(here[0]), number(here[1]), cost(0), cost(1)]);
    }
    Ok((table, all_built))
}

/// By [`MEASURES`].
fn measure(workspace: &Workspace, arguments: &[String]) -> Result<[u64; 2], String> {
    let sizes = sizes(&workspace.build_shipped(arguments)?)?;
    Ok(MEASURES.map(|m| sizes.iter().find(|(name, _)| *name == m).map_or(0, |(_, bytes)| *bytes)))
}

fn variants(features: &Features) -> Vec<Variant> {
    let with = |names: Vec<&str>| vec!["--features".to_owned(), names.join(",")];
    let mut variants = Vec::new();
    for feature in &features.default {
        let (gone, left): (Vec<&str>, Vec<&str>) =
            features.default.iter().map(|f| &**f).partition(|f| features.brings(f, feature));
        let arguments = [vec!["--no-default-features".to_owned()], with(left)].concat();
        let others = if gone.len() > 1 { " and what needs it" } else { "" };
        variants.push(Variant { name: format!("without {feature}{others}"), arguments, lacks: true });
    }
    for feature in features.needs.keys().filter(|f| !features.default.contains(f)) {
        variants.push(Variant { name: format!("with {feature}"), arguments: with(vec![feature]), lacks: false });
    }
    let none = Variant { name: "without any".into(), arguments: vec!["--no-default-features".into()], lacks: true };
    variants.push(none);
    variants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_default_feature_off_with_what_needs_it_each_other_on() {
        let names = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        let needs = [("a", &["dep:x"][..]), ("b", &[]), ("c", &["b"]), ("d", &["c"]), ("e", &["a"])];
        let needs = needs.into_iter().map(|(name, list)| (name.to_owned(), names(list))).collect();
        let found = variants(&Features { needs, default: names(&["a", "b", "c", "d"]) });
        let list: Vec<_> = found.iter().map(|v| (&*v.name, v.arguments.join(" "), v.lacks)).collect();
        let want = [
            ("without a", "--no-default-features --features b,c,d", true),
            ("without b and what needs it", "--no-default-features --features a", true),
            ("without c and what needs it", "--no-default-features --features a,b", true),
            ("without d", "--no-default-features --features a,b,c", true),
            ("with e", "--features e", false),
            ("without any", "--no-default-features", true),
        ];
        assert_eq!(list, want.map(|(name, arguments, lacks)| (name, arguments.to_owned(), lacks)));
    }
}

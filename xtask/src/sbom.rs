//! A bill of materials: every package that the program is built from, by `cargo metadata` and the lock file.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Value, json};

use crate::{Outcome, root, target};

pub fn run() -> Outcome {
    let output = Command::new("cargo")
        .current_dir(root())
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}\n{}", String::from_utf8_lossy(&output.stderr)))?;
    let bill = bill(&metadata, &checksums()?).ok_or("cargo metadata has another form than expected")?;
    let path = target().join("sbom.json");
    std::fs::write(&path, format!("{bill:#}\n"))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let count = bill["components"].as_array().map_or(0, Vec::len);
    println!("{} packages in {}", count, path.display());
    Ok(())
}

/// Of each package, by name and version.
fn checksums() -> Outcome<BTreeMap<(String, String), String>> {
    let text = std::fs::read_to_string(root().join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
    let field = |package: &str, name: &str| {
        package
            .lines()
            .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(" = \"")?.trim_end_matches('"').to_owned()))
    };
    Ok(text
        .split("[[package]]")
        .filter_map(|package| {
            Some(((field(package, "name")?, field(package, "version")?), field(package, "checksum")?))
        })
        .collect())
}

fn bill(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Option<Value> {
    let packages: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()?
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> =
        metadata["resolve"]["nodes"].as_array()?.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let program = packages.iter().find(|(_, package)| package["name"] == "m2m-cli").map(|(id, _)| *id)?;
    // What is needed only to test or to build is not part of the program.
    let needs = |id: &str| -> Vec<&str> {
        let normal = |need: &&Value| {
            need["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        let all = nodes[id]["deps"].as_array().into_iter().flatten();
        all.filter(normal).filter_map(|need| need["pkg"].as_str()).collect()
    };
    let (mut seen, mut open) = (BTreeSet::new(), vec![program]);
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            open.extend(needs(id));
        }
    }
    let name = |id: &str| format!("pkg:cargo/{}@{}", text(packages[id], "name"), text(packages[id], "version"));
    let component = |id: &&str| {
        let package = packages[*id];
        let key = (text(package, "name").to_owned(), text(package, "version").to_owned());
        let hashes: Vec<Value> =
            checksums.get(&key).map(|sum| json!({ "alg": "SHA-256", "content": sum })).into_iter().collect();
        json!({
            "type": "library",
            "bom-ref": name(id),
            "name": key.0,
            "version": key.1,
            "purl": name(id),
            // An old way to write "or".
            "licenses": [{ "expression": text(package, "license").replace('/', " OR ") }],
            "hashes": hashes,
        })
    };
    let others: Vec<&str> = seen.iter().filter(|id| **id != program).copied().collect();
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(&program) },
        "components": others.iter().map(component).collect::<Vec<_>>(),
        "dependencies": seen
            .iter()
            .map(|id| json!({ "ref": name(id), "dependsOn": needs(id).into_iter().map(&name).collect::<Vec<_>>() }))
            .collect::<Vec<_>>(),
    }))
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or("NOASSERTION")
}

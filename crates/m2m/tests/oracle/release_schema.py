"""Checks release files against the published JSON Schema, and their content hashes, without any code of ours.

Usage: release_schema.py SCHEMA DIRECTORY...
"""

import hashlib
import json
import pathlib
import sys

import jsonschema


def main() -> int:
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
    validator = jsonschema.Draft202012Validator(schema)
    checked = 0
    for directory in sys.argv[2:]:
        for path in sorted(pathlib.Path(directory).iterdir()):
            if path.suffix not in (".json", ".m2m"):
                continue
            text = path.read_text()
            release = json.loads(text)
            validator.validate(release)
            digits = release["hash"].removeprefix("sha256:")
            zeroed = text.replace(digits, "0" * 64, 1)
            if hashlib.sha256(zeroed.encode()).hexdigest() != digits:
                print(f"{path}: the hash is not that of the content")
                return 1
            checked += 1
    print(f"schema: {checked} releases are valid and have the hash that they state")
    print(f"= JSON Schema | {checked} releases | 0 differ")
    return 0 if checked else 1


sys.exit(main())

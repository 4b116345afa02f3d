#!/usr/bin/env python3
"""The daemon's JSON as types for those who speak it: `scripts/wire-types.py [--check]`.

docs/openapi.json is made from the Rust types of crates/api. This makes from it

* labextension/src/daemon-wire.ts, for the page in the browser,
* python/infinijup/infinijup/wire.py, for the Jupyter server and its kernels,

so that a field is named, and described, in one place only. `--check` writes nothing and fails if one of them is not up to date.

What the document may hold is what utoipa makes of our types: references, texts, numbers, lists, objects, maps, and unions of these. Anything
else ends the script rather than becoming a type that says nothing.
"""

import argparse
import json
import keyword
import pathlib
import sys
import textwrap
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/openapi.json"
Schema = dict[str, Any]

HEAD = (
    "What the daemon sends and takes, as JSON. Made from docs/openapi.json by scripts/wire-types.py: do not edit.",
    "A daemon may be newer or older than its client: fields are only ever added, and one that is not known is skipped.",
)


def main() -> int:
    arguments = argparse.ArgumentParser(description="Types for TypeScript and Python from docs/openapi.json.")
    arguments.add_argument("--check", action="store_true", help="write nothing, fail if a file is not up to date")
    check = arguments.parse_args().check
    schemas = json.loads(DOCUMENT.read_text())["components"]["schemas"]
    stale = []
    for path, text in made(schemas).items():
        if (path.read_text() if path.exists() else "") != text:
            stale.append(path)
            if not check:
                path.write_text(text)
    for path in stale:
        print(f"{path.relative_to(ROOT)} {'is not up to date: run scripts/wire-types.py' if check else 'was written'}")
    return 1 if check and stale else 0


def made(schemas: dict[str, Schema]) -> dict[pathlib.Path, str]:
    """The files, with what should be in them."""
    return {
        ROOT / "labextension/src/daemon-wire.ts": typescript(schemas),
        ROOT / "python/infinijup/infinijup/wire.py": python(schemas),
    }


def reference(schema: Schema) -> str | None:
    """The name of the schema that this one stands for."""
    return schema["$ref"].rsplit("/", 1)[-1] if "$ref" in schema else None


def alternatives(schema: Schema) -> list[Schema]:
    """What a value of this schema can be, one by one: `["string", "null"]` is two, and so is a `oneOf` of two."""
    if "oneOf" in schema:
        return schema["oneOf"]
    if isinstance(schema.get("type"), list):
        return [{**schema, "type": one} if one != "null" else {"type": "null"} for one in schema["type"]]
    return [schema]


def unknown(schema: Schema) -> Exception:
    """For what the script does not know."""
    return ValueError(f"no type is known for {json.dumps(schema)}")


# TypeScript.


def typescript(schemas: dict[str, Schema]) -> str:
    """The whole file."""
    lines = ["/**", *(f" * {line}" for line in HEAD), " */", ""]
    for name, schema in schemas.items():
        lines += [*ts_comment(schema, ""), f"export type {name} = {ts_type(schema, '')};".replace("= \n", "=\n"), ""]
    return "\n".join(lines)


def ts_comment(schema: Schema, indent: str) -> list[str]:
    """What the document says of it."""
    text = description(schema)
    if not text:
        return []
    lines = textwrap.wrap(text, 100 - len(indent))
    if len(lines) == 1:
        return [f"{indent}/** {lines[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {line}" for line in lines), f"{indent} */"]


def ts_type(schema: Schema, indent: str) -> str:
    """A type expression."""
    kinds = alternatives(schema)
    if len(kinds) > 1:
        return ts_union([ts_type(kind, indent + "  " if len(kinds) > 2 else indent) for kind in kinds], indent)
    if name := reference(schema):
        return name
    if "allOf" in schema:
        return " & ".join(ts_type(part, indent) for part in schema["allOf"])
    if "enum" in schema:
        return ts_union([f"'{value}'" for value in schema["enum"]], indent)
    match schema.get("type"):
        case "string":
            return "string"
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
        case "null":
            return "null"
        case "array":
            item = ts_type(schema["items"], indent)
            return f"({item})[]" if " | " in item else f"{item}[]"
        case "object" if "properties" in schema:
            inner = indent + "  "
            lines = ["{"]
            for name, field in schema["properties"].items():
                lines += ts_comment(field, inner)
                mark = "" if name in schema.get("required", []) else "?"
                lines.append(f"{inner}{name}{mark}: {ts_type(field, inner)};")
            return "\n".join([*lines, f"{indent}}}"])
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"Record<string, {ts_type(schema['additionalProperties'], indent)}>"
        case "object":
            return "Record<string, never>"
        case None if not set(schema) - {"description"}:
            return "unknown"
    raise unknown(schema)


def ts_union(kinds: list[str], indent: str) -> str:
    """One of these, each in a line of its own if there are many."""
    return " | ".join(kinds) if len(kinds) <= 5 and "\n" not in "".join(kinds[1:]) else "".join(f"\n{indent}  | {kind}" for kind in kinds)


# Python. Names that stand for others must come after these, those of fields need not.


def python(schemas: dict[str, Schema]) -> str:
    """The whole file."""
    lines = [f'"""{HEAD[0]}', "", HEAD[1], '"""', "", "from __future__ import annotations", ""]
    lines += ["from typing import Any, Literal, TypeAlias, TypedDict"]
    words = [name for name, schema in schemas.items() if "enum" in schema]
    classes = [name for name, schema in schemas.items() if "properties" in schema]
    others = [name for name in schemas if name not in words + classes]
    for name in words + classes + others:
        lines += ["", *py_definition(name, schemas[name])]
    return "\n".join(lines)


def py_definition(name: str, schema: Schema) -> list[str]:
    """A class for an object, another name for anything else; those of a union get classes of their own."""
    if "properties" in schema:
        return py_class(name, schema)
    lines, kinds = [], []
    for kind in alternatives(schema):
        if "properties" in kind:
            own = name + py_suffix(kind)
            lines += [*py_class(own, kind), ""]
            kinds.append(own)
        elif "allOf" in kind:
            base, more = kind["allOf"]
            own = name + py_suffix(more)
            lines += [*py_fields(f"class {own}({reference(base)}):", more, list(more["properties"]), description(kind)), "", ""]
            kinds.append(own)
        else:
            kinds.append(py_type(kind))
    text = " | ".join(kinds)
    if len(kinds) > 1 and len(text) > 100:
        text = "\n    | ".join(["(\n    " + kinds[0], *kinds[1:]]) + "\n)"
    return [*lines, *py_comment(schema), f"{name}: TypeAlias = {text}", ""]


def py_suffix(schema: Schema) -> str:
    """What tells one kind of a union from the others: the word in its tag, or its only field."""
    tag = schema["properties"].get("type", {}).get("enum", schema["required"])[0]
    return "".join(word.capitalize() for word in tag.split("_"))


def py_class(name: str, schema: Schema) -> list[str]:
    """A TypedDict. Python 3.10 knows no `NotRequired`, so what is always there is in a class below it."""
    needed = [field for field in schema["properties"] if field in schema.get("required", [])]
    others = [field for field in schema["properties"] if field not in needed]
    lines, parent = [], "TypedDict"
    if needed and others:
        parent = f"_{name}Always"
        lines += [*py_fields(f"class {parent}(TypedDict):", schema, needed, "What is always there."), "", ""]
    fields = others or needed
    total = ", total=False" if others else ""
    if any(keyword.iskeyword(field) for field in fields):
        if parent != "TypedDict":
            raise unknown(schema)
        # Such a field cannot be written as one of a class.
        types = [f'        "{field}": "{py_type(schema["properties"][field])}",' for field in fields]
        return [*py_comment(schema), f"{name} = TypedDict(", f'    "{name}",', "    {", *types, "    },", "    total=False,", ")", ""]
    return [*lines, *py_fields(f"class {name}({parent}{total}):", schema, fields, description(schema)), ""]


def py_fields(head: str, schema: Schema, fields: list[str], about: str) -> list[str]:
    """A class with these fields."""
    lines = [head]
    if about:
        text = textwrap.wrap(about, 130)
        lines += [f'    """{text[0]}"""'] if len(text) == 1 else [f'    """{text[0]}', *(f"    {line}" for line in text[1:]), '    """']
        lines.append("")
    for field in fields:
        own = schema["properties"][field]
        lines += [f"    {line}" for line in py_comment(own)] + [f"    {field}: {py_type(own)}"]
    return lines if fields else [*lines, "    pass"]


def py_comment(schema: Schema) -> list[str]:
    """What the document says of it."""
    return [f"# {line}" for line in textwrap.wrap(description(schema), 130)]


def py_type(schema: Schema) -> str:
    """A type expression."""
    kinds = alternatives(schema)
    if len(kinds) > 1:
        return " | ".join(py_type(kind) for kind in kinds)
    if name := reference(schema):
        return name
    if "enum" in schema:
        words = [f'"{value}"' for value in schema["enum"]]
        text = f"Literal[{', '.join(words)}]"
        return text if len(text) <= 100 else "Literal[" + "".join(f"\n    {word}," for word in words) + "\n]"
    match schema.get("type"):
        case "string":
            return "str"
        case "integer":
            return "int"
        case "number":
            return "float"
        case "boolean":
            return "bool"
        case "null":
            return "None"
        case "array":
            return f"list[{py_type(schema['items'])}]"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"dict[str, {py_type(schema['additionalProperties'])}]"
        case "object" if "properties" not in schema:
            return "dict[str, Any]"
        case None if not set(schema) - {"description"}:
            return "Any"
    raise unknown(schema)


def description(schema: Schema) -> str:
    """What the document says of it; in a choice between a reference and nothing it stands at the reference."""
    inner = (kind["description"] for kind in schema.get("oneOf", []) if "$ref" in kind and "description" in kind)
    return " ".join((schema.get("description") or next(inner, "")).split())


if __name__ == "__main__":
    sys.exit(main())

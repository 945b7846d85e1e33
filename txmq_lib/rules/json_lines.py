"""Lines of JSON, parsed strictly: what is wrong with the text, with a field's type, with a number. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import HIGHEST_OFFSET, OFFSET_OUT_OF_RANGE
from txmq_lib.rules.moments import is_time

# Of a line: its text, where it came from, its place, and what its source found wrong with it (reason, detail). Of a
# message also `long_body`: the body, decoded, where its text was too large to be left in the line; else null.
LINE_COLUMNS = ("value", "source", "position", "fault")
CORRUPT = "_corrupt"
JSON = {
    # What Spark takes for JSON beyond JSON would be told differently by the other look at a line.
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    # A body as large as one from a store may be (64 MiB), in base64; Spark's own bound is 20 million characters.
    "maxStringLen": "90000000",
}
JSON_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **JSON}
NESTED = r"^[\[{]"
# No braces but those of the object and of its properties: within a text they could hide a second object, or torn text,
# behind the first, which from_json does not see. Nothing repeated in a group: Java's stack would end with the text.
ONE_OBJECT = r"^[ \t\r\n]*\{[^{}]*\{[^{}]*\}[^{}]*\}[ \t\r\n]*\z"
# A number that no double holds comes as "Infinity", quotes and all.
NO_TEXT = r'^(-?[0-9][0-9.eE+-]*\z|true\z|false\z|"-?Infinity"\z|[\[{])'
# Half a surrogate pair is a question mark in a variant, where two such names of one object raise an error.
SURROGATE = r"\\u(?=[dD][89a-fA-F])"
# Jackson looks at the last byte of a character alone: to it U+2039 is a hex digit, the 9.
TORN_ESCAPE = r"\\u[0-9a-fA-F]{0,3}[^\x00-\x7f]"


def ddl_of(fields: dict[str, str]) -> str:
    """The schema of `fields` for from_json, with a column for what did not fit."""
    return ", ".join(f"`{name}` {type_}" for name, type_ in {**fields, CORRUPT: "string"}.items())


def parsed_lines(lines: DataFrame, fields: dict[str, str], struct: str) -> DataFrame:
    """`lines` with `struct`, their `value` parsed strictly to `fields` (name -> type), and with `o` for json_faults.

    `struct._corrupt` has the whole text where anything did not fit.
    """
    # As an array: a parser of one object would not see a second one that lost its line end, or torn text behind it.
    # An element follows: else a bracket behind the line would end the array, and what is behind that would not be seen.
    # A column of its own: written into several conditions it would be parsed for each of them again.
    objects = F.from_json(F.concat(F.lit("["), F.col("value"), F.lit(",{}]")), "array<map<string,string>>", JSON)
    typed = F.from_json("value", ddl_of(fields), JSON_OPTIONS)
    return lines.withColumns({"o": objects, struct: typed})


def json_faults(objects: str, struct: str, required: dict[str, str]) -> list[Column]:
    """Faults of the text itself: not one JSON object, a required field absent, a value of another type."""
    first = F.get(objects, F.lit(0))
    # Where bytes are no UTF-8 a parser puts other characters, and says nothing.
    is_object = (F.size(objects) == 2) & first.isNotNull() & F.is_valid_utf8("value") & ~has_torn_escape()
    odd = F.array_compact(
        F.array(
            *[
                F.when(F.col(f"{struct}.{name}").isNull() | _is_mistyped(struct, name, type_), F.lit(name))
                for name, type_ in required.items()
            ]
        )
    )
    mistyped = F.filter(odd, lambda name: F.element_at(first, name).isNotNull())
    missing = F.filter(odd, lambda name: F.element_at(first, name).isNull())
    return [
        fault(~F.coalesce(is_object, F.lit(False)), "BROKEN_JSON", F.lit("the line is not one JSON object")),
        fault(F.size(missing) > 0, "MISSING_FIELD", F.concat_ws(", ", missing)),
        fault(F.size(mistyped) > 0, "WRONG_TYPE", F.concat_ws(", ", mistyped)),
    ]


def has_torn_escape() -> Column:
    """True where an escape in `value` has less than four hex digits, and Jackson takes what follows for one."""
    value = F.col("value")
    # A backslash that is itself escaped begins no escape.
    single = F.replace(value, F.lit("\\\\"), F.lit("/"))
    return value.contains("\\u") & single.rlike(TORN_ESCAPE)


def is_no_text(typed: Column, paths: Sequence[str]) -> Column:
    """True where a text, parsed as `typed`, stands in `value` as something else: at the first of `paths` that is there.

    from_json takes anything for a text. Only what looks like something else is parsed once more, with its types.
    """
    value = F.coalesce(*[F.try_variant_get(_with_types(), path, "variant") for path in paths])
    return F.coalesce(F.when(typed.rlike(NO_TEXT), F.schema_of_variant(value) != "STRING"), F.lit(False))


def _is_mistyped(struct: str, name: str, type_: str) -> Column:
    """True where a text field is given as something else, or a map of texts holds objects or arrays."""
    typed = F.col(f"{struct}.{name}")
    if type_ == "string":
        return is_no_text(typed, [f"$.{name}"])
    found = F.try_variant_get(_with_types(), f"$.{name}", "variant")
    if type_ == "map<string,string>":
        looks_nested = F.exists(F.map_values(typed), lambda value: value.rlike(NESTED))
        values = F.map_values(F.try_variant_get(found, "$", "map<string,variant>"))
        is_nested = F.exists(values, lambda value: F.schema_of_variant(value).rlike("^(OBJECT|ARRAY)"))
        wrong = F.when(looks_nested, is_nested)
    else:
        wrong = F.lit(False)
    return F.coalesce(wrong, F.lit(False))


def _with_types() -> Column:
    """`value` parsed with the types it was written in; texts with surrogates are other ones there."""
    # "/" keeps it JSON behind a backslash, too: "\\ud800" becomes "\/ud800".
    return F.try_parse_json(F.regexp_replace("value", SURROGATE, "/u"))


def negative_fault(struct: str, names: list[str]) -> Column:
    """Fault of a number that must not be negative."""
    negative = F.array_compact(F.array(*[F.when(F.col(f"{struct}.{name}") < 0, F.lit(name)) for name in names]))
    return fault(F.size(negative) > 0, "NEGATIVE_NUMBER", F.concat_ws(", ", negative))


def offset_fault(struct: str, names: list[str]) -> Column:
    """Fault of an offset that has no next one."""
    odd = F.array_compact(F.array(*[F.when(F.col(f"{struct}.{name}") > HIGHEST_OFFSET, F.lit(name)) for name in names]))
    return fault(F.size(odd) > 0, OFFSET_OUT_OF_RANGE, F.concat_ws(", ", odd))


def repetition_fault(properties: str) -> Column:
    """Fault of a name given twice, which no map of the tables can hold."""
    names = F.map_keys(properties)
    return fault(F.size(names) > F.size(F.array_distinct(names)), "PROPERTY_REPEATED", F.lit("properties"))


def time_fault(struct: str, names: list[str]) -> Column:
    """Fault of epoch milliseconds outside 1970 to the year 9999."""
    odd = F.array_compact(F.array(*[F.when(~is_time(F.col(f"{struct}.{name}")), F.lit(name)) for name in names]))
    return fault(F.size(odd) > 0, "TIMESTAMP_OUT_OF_RANGE", F.concat_ws(", ", odd))


def fault(is_wrong: Column, reason: str, detail: Column) -> Column:
    """A struct (reason, detail) where `is_wrong`, else null."""
    return F.when(is_wrong, F.struct(F.lit(reason).alias("reason"), detail.alias("detail")))


def verdict_columns(faults: list[Column]) -> list[Column]:
    """Columns reason, detail and raw from the first fault that applies, the source's own before all; else null."""
    first = F.coalesce("fault", *faults)
    return [
        first["reason"].alias("reason"),
        first["detail"].alias("detail"),
        # Not every reader of the table would read bytes that are no UTF-8.
        F.when(first.isNotNull(), F.make_valid_utf8("value")).alias("raw"),
    ]

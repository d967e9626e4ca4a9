"""Structured mode: a JSON object that can be read, and whose members are no event."""

from tests.support.bad_records.case import STRUCTURED, good_members, json_object, structured, unreadable

_STRUCTURED = ("content-type", STRUCTURED)

MISSING = [
    structured("structured, no id", "missing_id", without="id"),
    structured("structured, a null id", "missing_id", id="null"),
    structured("structured, an empty id", "missing_id", id='""'),
    structured("structured, an id of a space", "missing_id", id='" "'),
    structured("structured, an id of escaped white space", "missing_id", id='"\\t\\n\\u00a0\\u3000"'),
    structured("structured, the id in capitals", "missing_id", '"ID":"e-1"', without="id"),
    structured("structured, the id in the data only", "missing_id", without="id", data='{"id":"e-1","thing_id":"t-1"}'),
    structured("structured, no source", "missing_source", without="source"),
    structured("structured, a null source", "missing_source", source="null"),
    structured("structured, an empty source", "missing_source", source='""'),
    structured("structured, a source of spaces", "missing_source", source='"   "'),
    structured("structured, no type", "missing_type", without="type"),
    structured("structured, a null type", "missing_type", type="null"),
    structured("structured, an empty type", "missing_type", type='""'),
    structured("structured, a type of an escaped em space", "missing_type", type='"\\u2003"'),
    structured(
        "structured, the type under another name", "missing_type", '"eventtype":"thing.happened"', without="type"
    ),
    unreadable("structured, nothing but the specversion", "missing_id", b'{"specversion":"1.0"}', _STRUCTURED),
    unreadable(
        "structured, attributes in the headers only",
        "missing_id",
        b'{"specversion":"1.0","data":{}}',
        _STRUCTURED,
        ("ce_specversion", b"1.0"),
        ("ce_id", b"e-1"),
        ("ce_source", b"/tests"),
        ("ce_type", b"thing.happened"),
    ),
]

SPECVERSIONS = [
    structured("structured, no specversion", "bad_specversion", without="specversion"),
    structured("structured, a null specversion", "bad_specversion", specversion="null"),
    structured("structured, an empty specversion", "bad_specversion", specversion='""'),
    structured("structured, specversion 0.3", "bad_specversion", specversion='"0.3"'),
    structured("structured, specversion 1.1", "bad_specversion", specversion='"1.1"'),
    structured("structured, specversion 1.0 with a line end", "bad_specversion", specversion='"1.0\\n"'),
    structured("structured, specversion in capitals", "bad_specversion", '"specVersion":"1.0"', without="specversion"),
    unreadable("structured, an empty object", "bad_specversion", b"{}", _STRUCTURED),
    unreadable("structured, the data alone", "bad_specversion", b'{"thingid":"t-1"}', _STRUCTURED),
    unreadable(
        "structured, an event of specversion 0.1",
        "bad_specversion",
        b'{"cloudEventsVersion":"0.1","eventID":"e-1","eventType":"thing.happened","source":"/tests"}',
        _STRUCTURED,
    ),
    unreadable(
        "structured, an event within an object",
        "bad_attribute_value",
        b'{"event":' + json_object(good_members("inner")) + b"}",
        _STRUCTURED,
    ),
]

# The JSON format maps texts to texts, booleans to booleans and integers to integers; all that the specification itself
# defines are texts.
WRONG_TYPES = [
    structured("structured, specversion as a number", "bad_attribute_value", specversion="1.0"),
    structured("structured, specversion as a list", "bad_attribute_value", specversion='["1.0"]'),
    structured("structured, an id that is a number", "bad_attribute_value", id="7"),
    structured("structured, an id that is a large number", "bad_attribute_value", id="12345678901234567890"),
    structured("structured, an id that is a fraction", "bad_attribute_value", id="7.5"),
    structured("structured, an id that is true", "bad_attribute_value", id="true"),
    structured("structured, an id that is an object", "bad_attribute_value", id='{"$oid":"65b2"}'),
    structured("structured, an id that is a list", "bad_attribute_value", id='["e-1"]'),
    structured("structured, a source that is a number", "bad_attribute_value", source="7"),
    structured("structured, a source that is an object", "bad_attribute_value", source='{"uri":"/tests"}'),
    structured("structured, a type that is a list", "bad_attribute_value", type='["thing.happened"]'),
    structured("structured, a type that is false", "bad_attribute_value", type="false"),
    structured("structured, a time that is a number of seconds", "bad_attribute_value", time="1767225600"),
    structured("structured, a time that is a number with decimals", "bad_attribute_value", time="1767225600.25"),
    structured("structured, a subject that is a number", "bad_attribute_value", subject="1"),
    structured("structured, a dataschema that is an object", "bad_attribute_value", dataschema='{"version":1}'),
    structured("structured, a datacontenttype that is a list", "bad_attribute_value", datacontenttype='["text/xml"]'),
    structured("structured, an extension that is a fraction", "bad_attribute_value", rate="0.5"),
    structured("structured, an extension that is a whole fraction", "bad_attribute_value", rate="1.0"),
    structured("structured, an extension with an exponent", "bad_attribute_value", rate="1e3"),
    structured("structured, an extension of 32 bits and one", "bad_attribute_value", count="2147483648"),
    structured("structured, an extension below 32 bits", "bad_attribute_value", count="-2147483649"),
    structured("structured, an extension of 5,000 digits", "bad_attribute_value", count="9" * 5_000),
    structured(
        "structured, an extension of 100,000 digits below zero", "bad_attribute_value", count="-" + "9" * 100_000
    ),
    structured("structured, an id of 100,000 digits", "bad_attribute_value", id="9" * 100_000),
    structured("structured, a list of 100,000 digits", "bad_attribute_value", tenant="[" + "9" * 100_000 + "]"),
    structured("structured, an extension that is an object", "bad_attribute_value", tenant='{"name":"acme"}'),
    structured("structured, an extension that is an empty object", "bad_attribute_value", tenant="{}"),
    structured("structured, an extension that is an empty list", "bad_attribute_value", tenant="[]"),
    structured("structured, extensions in a bag of their own", "bad_attribute_value", extensions='{"tenant":"acme"}'),
]

DOUBLED = [
    structured("structured, two ids", "duplicate_attribute", '"id":"e-2"'),
    structured("structured, the same id twice", "duplicate_attribute", '"id":"structured, the same id twice"'),
    structured("structured, an id and a null one", "duplicate_attribute", '"id":null'),
    structured("structured, two ids, one escaped", "duplicate_attribute", '"\\u0069d":"e-2"'),
    structured("structured, two sources", "duplicate_attribute", '"source":"/others"'),
    structured("structured, two types", "duplicate_attribute", '"type":"thing.paid"'),
    structured("structured, two specversions", "duplicate_attribute", '"specversion":"1.0"'),
    structured("structured, two times", "duplicate_attribute", '"time":"2026-02-01T00:00:00Z"'),
    structured("structured, two data", "duplicate_attribute", '"data":{"thing_id":"t-2"}'),
    structured("structured, data and null data", "duplicate_attribute", '"data":null'),
    structured("structured, an extension twice", "duplicate_attribute", '"tenant":"a"', '"tenant":"b"'),
    structured(
        "structured, two data_base64",
        "duplicate_attribute",
        '"data_base64":"e30="',
        '"data_base64":"e30="',
        without="data",
    ),
    unreadable(
        "structured, two content types", "duplicate_attribute", b"{}", _STRUCTURED, ("content-type", b"text/plain")
    ),
]

NAMES = [
    structured("structured, a name with a capital", "bad_attribute_name", '"dataSchema":"urn:a:b"'),
    structured("structured, a name with an underscore", "bad_attribute_name", '"correlation_id":"c-1"'),
    structured("structured, a name with a dash", "bad_attribute_name", '"correlation-id":"c-1"'),
    structured("structured, a name with a dot", "bad_attribute_name", '"com.acme":"x"'),
    structured("structured, a name with a space", "bad_attribute_name", '"my tenant":"acme"'),
    structured("structured, a name with an umlaut", "bad_attribute_name", '"größe":"x"'),
    structured("structured, a name with an escaped umlaut", "bad_attribute_name", '"gr\\u00f6":"x"'),
    structured("structured, a name with a NUL", "bad_attribute_name", '"id\\u0000":"x"'),
    structured("structured, a name of half a surrogate pair", "bad_attribute_name", '"\\ud83d":"x"'),
    structured("structured, an empty name", "bad_attribute_name", '"":"x"'),
    structured("structured, a name with the prefix of Kafka", "bad_attribute_name", '"ce_tenant":"acme"'),
    structured("structured, a second id in capitals", "bad_attribute_name", '"ID":"e-2"'),
    structured("structured, data with a capital", "bad_attribute_name", '"Data":"x"', without="data"),
    structured("structured, dataBase64", "bad_attribute_name", '"dataBase64":"e30="', without="data"),
    structured("structured, a schema reference of JSON", "bad_attribute_name", '"$schema":"https://example.com/s"'),
]

CASES = (*MISSING, *SPECVERSIONS, *WRONG_TYPES, *DOUBLED, *NAMES)

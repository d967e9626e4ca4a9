"""Binary mode: attributes as headers, which may be missing, blank, doubled, misnamed or not UTF-8."""

from tests.support.bad_records.case import HAPPENED, binary, identified, unreadable

# Unicode's spaces are spaces, too: an id of them names nothing.
MISSING = [
    binary("binary, no id", "missing_id", without="ce_id"),
    binary("binary, an empty id", "missing_id", id=b""),
    binary("binary, an id of a space", "missing_id", id=b" "),
    binary("binary, an id of tabs and line ends", "missing_id", id=b"\t\r\n"),
    binary("binary, an id of a no-break space", "missing_id", id="\u00a0".encode()),
    binary("binary, an id of ideographic spaces", "missing_id", id="\u3000\u3000".encode()),
    binary("binary, the id in a header of capitals", "missing_id", ("CE_ID", b"e-1"), without="ce_id"),
    binary("binary, the id with the dash of HTTP", "missing_id", ("ce-id", b"e-1"), without="ce_id"),
    binary("binary, the id without the prefix", "missing_id", ("id", b"e-1"), without="ce_id"),
    binary("binary, the id under a name in capitals", "missing_id", ("ce_ID", b"e-1"), without="ce_id"),
    binary("binary, the id in the data only", "missing_id", without="ce_id", value=b'{"id":"e-1","thing_id":"t-1"}'),
    binary("binary, no source", "missing_source", without="ce_source"),
    binary("binary, an empty source", "missing_source", source=b""),
    binary("binary, a source of spaces", "missing_source", source=b"   "),
    binary("binary, a source of a thin space", "missing_source", source="\u2009".encode()),
    binary(
        "binary, the source in a header of capitals", "missing_source", ("Ce_source", b"/tests"), without="ce_source"
    ),
    binary("binary, no type", "missing_type", without="ce_type"),
    binary("binary, an empty type", "missing_type", type=b""),
    binary("binary, a type of spaces", "missing_type", type=b"  \t "),
    binary("binary, a type of an em space", "missing_type", type="\u2003".encode()),
    binary("binary, the type without the prefix", "missing_type", ("type", b"thing.happened"), without="ce_type"),
    unreadable("binary, nothing but the specversion", "missing_id", HAPPENED, ("ce_specversion", b"1.0")),
    unreadable(
        "binary, specversion and id alone", "missing_source", HAPPENED, ("ce_specversion", b"1.0"), ("ce_id", b"e-1")
    ),
]

# A null header is an attribute that is not set.
NULL_HEADERS = [
    binary("binary, a null id", "missing_id", ("ce_id", None), without="ce_id"),
    binary("binary, a null source", "missing_source", ("ce_source", None), without="ce_source"),
    binary("binary, a null type", "missing_type", ("ce_type", None), without="ce_type"),
    binary("binary, a null specversion", "bad_specversion", ("ce_specversion", None), without="ce_specversion"),
    unreadable("binary, every attribute null", "not_an_event", HAPPENED, ("ce_id", None), ("ce_type", None)),
    unreadable("binary, every attribute null and no value", "null_value", None, ("ce_id", None), ("ce_type", None)),
    identified(
        binary(
            "XML of a null content type", "invalid_json", ("content-type", None), without="content-type", value=b"<a/>"
        )
    ),
]

SPECVERSIONS = [
    binary("binary, no specversion", "bad_specversion", without="ce_specversion"),
    binary("binary, an empty specversion", "bad_specversion", specversion=b""),
    binary("binary, specversion 0.1", "bad_specversion", specversion=b"0.1"),
    binary("binary, specversion 0.3", "bad_specversion", specversion=b"0.3"),
    binary("binary, specversion 1", "bad_specversion", specversion=b"1"),
    binary("binary, specversion 1.0.2", "bad_specversion", specversion=b"1.0.2"),
    binary("binary, specversion 1.0-rc1", "bad_specversion", specversion=b"1.0-rc1"),
    binary("binary, specversion 1.1", "bad_specversion", specversion=b"1.1"),
    binary("binary, specversion 2.0", "bad_specversion", specversion=b"2.0"),
    binary("binary, specversion with a v", "bad_specversion", specversion=b"v1.0"),
    binary("binary, specversion with a space behind it", "bad_specversion", specversion=b"1.0 "),
    binary("binary, specversion in quotes", "bad_specversion", specversion=b'"1.0"'),
    binary("binary, specversion with a comma", "bad_specversion", specversion=b"1,0"),
    binary("binary, specversion in Arabic digits", "bad_specversion", specversion="\u0661.\u0660".encode()),
    binary("binary, specversion as an integer of four bytes", "bad_specversion", specversion=b"\x00\x00\x00\x01"),
    unreadable("binary, one foreign attribute alone", "bad_specversion", HAPPENED, ("ce_tenant", b"acme")),
    unreadable("binary, the prefix alone", "bad_specversion", HAPPENED, ("ce_", b"x")),
]

DOUBLED = [
    binary("binary, the same id twice", "duplicate_attribute", ("ce_id", b"binary, the same id twice")),
    binary("binary, two ids", "duplicate_attribute", ("ce_id", b"e-2")),
    binary("binary, an id and an empty one", "duplicate_attribute", ("ce_id", b"")),
    binary("binary, two sources", "duplicate_attribute", ("ce_source", b"/others")),
    binary("binary, two types", "duplicate_attribute", ("ce_type", b"thing.paid")),
    binary("binary, two specversions", "duplicate_attribute", ("ce_specversion", b"0.3")),
    binary("binary, two times", "duplicate_attribute", ("ce_time", b"2026-02-01T00:00:00Z")),
    binary("binary, two dataschemas", "duplicate_attribute", ("ce_dataschema", b"urn:surefoot:thing.happened:2")),
    binary("binary, two keys", "duplicate_attribute", ("ce_partitionkey", b"t-2")),
    binary("binary, an extension twice", "duplicate_attribute", ("ce_tenant", b"acme"), ("ce_tenant", b"acme")),
    binary("binary, an extension three times", "duplicate_attribute", *[("ce_region", b"eu")] * 3),
    binary("binary, two content types", "duplicate_attribute", ("content-type", b"text/xml")),
    binary("binary, the same content type twice", "duplicate_attribute", ("content-type", b"application/json")),
    binary("binary, content types in two spellings", "duplicate_attribute", ("Content-Type", b"application/json")),
    binary(
        "binary, a second content type that is structured",
        "duplicate_attribute",
        ("CONTENT-TYPE", b"application/cloudevents+json"),
    ),
    binary(
        "binary, datacontenttype beside the content type",
        "duplicate_attribute",
        ("ce_datacontenttype", b"application/json"),
    ),
]

NAMES = [
    binary("binary, a name with a capital", "bad_attribute_name", ("ce_Tenant", b"acme")),
    binary("binary, a name all in capitals", "bad_attribute_name", ("ce_TENANT", b"acme")),
    binary("binary, a name with an underscore", "bad_attribute_name", ("ce_my_tenant", b"acme")),
    binary("binary, a name with a dash", "bad_attribute_name", ("ce_my-tenant", b"acme")),
    binary("binary, a name with a dot", "bad_attribute_name", ("ce_my.tenant", b"acme")),
    binary("binary, a name with a space", "bad_attribute_name", ("ce_my tenant", b"acme")),
    binary("binary, a name with a space behind it", "bad_attribute_name", ("ce_tenant ", b"acme")),
    binary("binary, a name with an umlaut", "bad_attribute_name", ("ce_mandantä", b"acme")),
    binary("binary, a name in Cyrillic", "bad_attribute_name", ("ce_\u0442\u0435\u043d\u0430\u043d\u0442", b"acme")),
    binary("binary, a name with an Arabic digit", "bad_attribute_name", ("ce_tenant\u0661", b"acme")),
    binary("binary, a name of an emoji", "bad_attribute_name", ("ce_\U0001f600", b"acme")),
    binary("binary, a name with a line end", "bad_attribute_name", ("ce_tenant\n", b"acme")),
    binary("binary, an empty name", "bad_attribute_name", ("ce_", b"acme")),
    binary("binary, the prefix twice", "bad_attribute_name", ("ce_ce_tenant", b"acme")),
    binary("binary, a second id in capitals", "bad_attribute_name", ("ce_Id", b"e-2")),
    binary("binary, an attribute called data", "bad_attribute_name", ("ce_data", b"{}")),
    binary("binary, an attribute called data_base64", "bad_attribute_name", ("ce_data_base64", b"e30=")),
    binary("binary, a bad name of 10,000 letters", "bad_attribute_name", ("ce_" + "X" * 10_000, b"")),
]

NOT_UTF8 = [
    binary("binary, an id that is not UTF-8", "not_utf8", id=b"e-\xff"),
    binary("binary, an id of 16 random bytes", "not_utf8", id=bytes(range(0x9C, 0xAC))),
    binary("binary, a source that is not UTF-8", "not_utf8", source=b"/tests\x80"),
    binary("binary, a type that is not UTF-8", "not_utf8", type=b"\xfething.happened"),
    binary("binary, a specversion that is not UTF-8", "not_utf8", specversion=b"1.0\xc3"),
    binary("binary, a specversion as a double", "not_utf8", specversion=b"\x00\x00\x00\x00\x00\x00\xf0\x3f"),
    binary("binary, a time that is not UTF-8", "not_utf8", time=b"\x00\x00\x01\x9c\xff"),
    binary("binary, a subject in Latin-1", "not_utf8", subject="Größe".encode("latin-1")),
    binary("binary, a dataschema that is not UTF-8", "not_utf8", dataschema=b"urn:surefoot:\xe4"),
    binary("binary, a key attribute that is not UTF-8", "not_utf8", partitionkey=b"\xc0\xc1"),
    binary("binary, a content type that is not UTF-8", "not_utf8", content_type=b"application/json\xa0"),
    binary(
        "binary, a structured content type that is not UTF-8",
        "not_utf8",
        content_type=b"application/cloudevents+json\xff",
    ),
    binary("binary, a type in UTF-16", "not_utf8", type=b"\xff\xfe" + "thing.happened".encode("utf-16-le")),
    binary("binary, an overlong NUL", "not_utf8", tenant=b"\xc0\x80"),
    binary("binary, a surrogate written as UTF-8", "not_utf8", tenant=b"\xed\xa0\x80"),
    binary("binary, a character beyond Unicode", "not_utf8", tenant=b"\xf4\x90\x80\x80"),
    binary("binary, a character cut in half", "not_utf8", tenant=b"acm\xc3"),
    unreadable("binary, nothing but an attribute that is not UTF-8", "not_utf8", HAPPENED, ("ce_x", b"\xff")),
]

# What the binding wants as content-type may come as an attribute; it says as clearly that the data are not JSON.
CONTENT_TYPES = [
    identified(
        binary(
            "XML by the attribute datacontenttype",
            "wrong_content_type",
            without="content-type",
            datacontenttype=b"text/xml",
        )
    ),
    binary(
        "an attribute datacontenttype that is no media type",
        "bad_attribute_value",
        without="content-type",
        datacontenttype=b"xml",
    ),
]

CASES = (*MISSING, *NULL_HEADERS, *SPECVERSIONS, *DOUBLED, *NAMES, *NOT_UTF8, *CONTENT_TYPES)

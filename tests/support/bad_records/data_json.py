"""Events whose envelope is good, and whose data cannot be read: broken JSON, other content types, other versions.

The consumer knows which event it is, so a redelivery of it is known, too.
"""

import gzip

from tests.support.bad_records.case import HAPPENED, BadCase, binary, identified, structured, with_data, with_paid_data

_DEEP = 100_000
_TEXT = HAPPENED.decode()

BROKEN = [
    with_data(f"data, {what}", "invalid_json", value)
    for what, value in {
        "empty": b"",
        "white space alone": b" \n",
        "cut in the middle": HAPPENED[:17],
        "cut before the last brace": HAPPENED[:-1],
        "without the first brace": HAPPENED[1:],
        "a comma behind the last member": HAPPENED[:-1] + b",}",
        "a comma before the first member": b'{,"thing_id":"t-1"}',
        "two commas": b'{"thing_id":"t-1",,"number":7}',
        "no comma": b'{"thing_id":"t-1" "number":7}',
        "no colon": b'{"thing_id" "t-1"}',
        "an equals sign for the colon": b'{"thing_id"="t-1"}',
        "single quotes": b"{'thing_id':'t-1'}",
        "typographic quotes": "{\u201cthing_id\u201d:\u201ct-1\u201d}".encode(),
        "names without quotes": b'{thing_id:"t-1"}',
        "a comment": b'{"thing_id":"t-1"} // the thing',
        "a second object": HAPPENED + HAPPENED,
        "one object per line": HAPPENED + b"\n" + HAPPENED,
        "a NUL behind it": HAPPENED + b"\x00",
        "a NUL within": b'{"thing_id":"t\x00"}',
        "a raw line end in a text": b'{"thing_id":"t-1","note":"a\nb"}',
        "an unknown escape": b'{"thing_id":"t-1","note":"\\q"}',
        "a cut escape": b'{"thing_id":"t-1","note":"\\u12"}',
        "a text that does not end": b'{"thing_id":"t-1}',
        "half a surrogate pair": b'{"thing_id":"t-1","note":"\\ud83d"}',
        "the other half of a surrogate pair": b'{"thing_id":"t-1","note":"\\ude00"}',
        "half a surrogate pair in a member nobody knows": b'{"thing_id":"t-1","other":"\\ud83d."}',
        "a byte order mark": b"\xef\xbb\xbf" + HAPPENED,
        "UTF-16": _TEXT.encode("utf-16"),
        "UTF-16 without a mark": _TEXT.encode("utf-16-le"),
        "UTF-32": _TEXT.encode("utf-32"),
        "Latin-1": '{"thing_id":"t-1","note":"Größe"}'.encode("latin-1"),
        "a surrogate written as UTF-8": b'{"thing_id":"t-1","note":"\xed\xa0\xbd"}',
        "an overlong slash": b'{"thing_id":"t-1","note":"\xc0\xaf"}',
        "no UTF-8 in a member nobody knows": b'{"thing_id":"t-1","other":"\xff"}',
        "EBCDIC": _TEXT.encode("cp500"),
        "gzip": gzip.compress(HAPPENED, mtime=0),
        "zstd": b"\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00",
        "protobuf": b"\x0a\x03t-1\x10\x07",
        "Avro of a schema registry": b"\x00\x00\x00\x00\x2a\x06t-1\x0e",
        "JSON of a schema registry": b"\x00\x00\x00\x00\x2a" + HAPPENED,
        "CBOR": b"\xa1hthing_idct-1",
        "MessagePack": b"\x81\xa8thing_id\xa3t-1",
        "XML": b"<thing id='t-1'/>",
        "YAML": b"thing_id: t-1\nnumber: 7\n",
        "a form": b"thing_id=t-1&number=7",
        "a word": b"happened",
        "undefined": b"undefined",
        "Python's repr": b"{'thing_id': 't-1', 'note': None}",
        "Python's True": b'{"thing_id":"t-1","other":True}',
        "NaN alone": b"NaN",
        "NaN and more": b"NaN-1",
        "NaN for a number": b'{"thing_id":"t-1","number":NaN}',
        "Infinity for a number": b'{"thing_id":"t-1","number":Infinity}',
        "minus Infinity for a text": b'{"thing_id":-Infinity}',
        "NaN beside data that do not fit": b'{"number":"seven","other":NaN}',
        "NaN behind a text that says so": b'{"thing_id":"\\"NaN\\\\","number":NaN}',
        "NaN in a text that does not end": b'{"thing_id":"NaN' + b'\\"' * 50_000,
        "NaN in a member nobody knows": b'{"thing_id":"t-1","other":NaN}',
        "Infinity in a member nobody knows": b'{"thing_id":"t-1","other":Infinity}',
        "minus Infinity in a list nobody knows": b'{"thing_id":"t-1","other":[1,-Infinity]}',
        "a leading zero": b'{"thing_id":"t-1","number":007}',
        "a leading plus": b'{"thing_id":"t-1","number":+7}',
        "a hexadecimal number": b'{"thing_id":"t-1","number":0x7}',
        "a point without decimals": b'{"thing_id":"t-1","number":7.}',
        "a point without a whole": b'{"thing_id":"t-1","number":.7}',
        "an exponent without digits": b'{"thing_id":"t-1","number":7e}',
        "underscores in a number": b'{"thing_id":"t-1","number":1_000}',
        "a minus alone": b'{"thing_id":"t-1","number":-}',
        "a number of 100,000 digits": b'{"thing_id":"t-1","number":' + b"9" * 100_000 + b"}",
        "a negative number of 100,000 digits": b'{"thing_id":"t-1","number":-' + b"9" * 100_000 + b"}",
        "lists 100,000 deep": b"[" * _DEEP + b"]" * _DEEP,
        "lists 300 deep": b"[" * 300 + b"]" * 300,
        "objects 100,000 deep": b'{"a":' * _DEEP + b"1" + b"}" * _DEEP,
        "lists that never end": b"[" * _DEEP,
        "objects that never end": b'{"thing_id":' * 50_000,
        "closing brackets alone": b"]" * _DEEP,
        "100,000 backslashes": b'"' + b"\\" * _DEEP,
        "100,000 NULs": b"\x00" * _DEEP,
    }.items()
]

BROKEN_ELSEWHERE = [
    with_paid_data("data, cut within money", "invalid_json", b'{"thing_id":"t-1","price":{"minor_units":19'),
    with_paid_data("data, a comma too many in money", "invalid_json", b'{"thing_id":"t-1","price":{"minor_units":1,}}'),
    with_paid_data("money, NaN", "invalid_json", b'{"thing_id":"t-1","price":NaN}'),
    with_paid_data(
        "money, NaN minor units", "invalid_json", b'{"thing_id":"t-1","price":{"minor_units":NaN,"currency":"EUR"}}'
    ),
    with_paid_data("data, thousands separated by commas", "invalid_json", b'{"thing_id":"t-1","price":{1,999}}'),
    identified(
        binary(
            "data, UTF-16 as declared",
            "invalid_json",
            value=_TEXT.encode("utf-16"),
            content_type=b"application/json; charset=utf-16",
        )
    ),
    identified(
        binary("data, XML that says nothing", "invalid_json", value=b"<thing id='t-2'/>", without="content-type")
    ),
    identified(
        structured("structured, half a surrogate pair in the data", "invalid_json", data='{"thing_id":"\\ud800"}')
    ),
    identified(
        structured(
            "structured, a number of 100,000 digits in the data",
            "invalid_json",
            data='{"thing_id":"t-1","number":' + "9" * 100_000 + "}",
        )
    ),
]


def _of(content_type: str, value: bytes = HAPPENED) -> BadCase:
    case = binary(f"data of {content_type}", "wrong_content_type", content_type=content_type.encode(), value=value)
    return identified(case)


CONTENT_TYPES = [
    _of("text/xml", b"<thing id='t-1'/>"),
    _of("application/xml", b"<thing/>"),
    _of("application/avro", b"\x06t-1\x0e\x02n"),
    _of("avro/binary", b"Obj\x01"),
    _of("application/x-protobuf", b"\x0a\x03t-1"),
    _of("application/protobuf", b"\x0a\x03t-2"),
    _of("application/cbor", b"\xa0"),
    _of("application/msgpack", b"\x80"),
    _of("application/octet-stream"),
    _of("application/gzip", gzip.compress(b"{}", mtime=0)),
    _of("text/plain", b"happened"),
    _of("text/plain; charset=utf-8"),
    _of("text/csv", b"thing_id,number\nt-1,7\n"),
    _of("text/html", b"<!doctype html>"),
    _of("application/x-www-form-urlencoded", b"thing_id=t-1"),
    _of("application/yaml", b"thing_id: t-1"),
    _of("application/x-ndjson", HAPPENED + b"\n"),
    _of("application/json-seq", b"\x1e" + HAPPENED),
    _of("application/jsonp", b"f({})"),
    _of("application/javascript", b"({})"),
    _of("application/vnd.thing+xml", b"<thing>t-1</thing>"),
    _of("json/application"),
    _of("text/x-empty", b""),
    identified(binary("data of an image, and none", "wrong_content_type", content_type=b"image/png", value=None)),
    identified(
        structured("structured, XML in a text", "wrong_content_type", datacontenttype='"text/xml"', data='"<a/>"')
    ),
    identified(
        structured("structured, an object that says it is XML", "wrong_content_type", datacontenttype='"text/xml"')
    ),
    identified(
        structured(
            "structured, Avro in Base64",
            "wrong_content_type",
            '"data_base64":"BnQtMQ4="',
            without="data",
            datacontenttype='"application/avro"',
        )
    ),
    identified(
        structured(
            "structured, text without data", "wrong_content_type", without="data", datacontenttype='"text/plain"'
        )
    ),
]


def _schema(what: str, dataschema: str) -> BadCase:
    return identified(binary(f"dataschema, {what}", "wrong_version", dataschema=dataschema.encode()))


def _version(what: str, version: str) -> BadCase:
    return identified(binary(what, "wrong_version", dataschema=f"urn:surefoot:thing.happened:{version}".encode()))


# What is wrong with the version is said first: data of another version need not fit.
VERSIONS = [
    _version("version 2", "2"),
    _version("version 10", "10"),
    _version("version 11", "11"),
    _version("version 999", "999"),
    _version("version 999999999", "999999999"),
    identified(
        binary(
            "version 2, data that do not fit",
            "wrong_version",
            dataschema=b"urn:surefoot:thing.happened:2",
            value=b'{"thing":{}}',
        )
    ),
    identified(
        binary(
            "version 2, data that are no JSON", "wrong_version", dataschema=b"urn:surefoot:thing.happened:2", value=b"{"
        )
    ),
    identified(binary("version 2, no data", "wrong_version", dataschema=b"urn:surefoot:thing.happened:2", value=None)),
    identified(
        binary(
            "version 2, Avro",
            "wrong_version",
            dataschema=b"urn:surefoot:thing.happened:2",
            content_type=b"application/avro",
        )
    ),
    identified(
        binary(
            "version 3 of the other type", "wrong_version", type=b"thing.paid", dataschema=b"urn:surefoot:thing.paid:3"
        )
    ),
    # Something else of ours: the data say of themselves that they were made by another declaration.
    _schema("the other type's", "urn:surefoot:thing.paid:1"),
    _schema("the other type's version 2", "urn:surefoot:thing.paid:2"),
    _schema("a type nobody knows", "urn:surefoot:thing:1"),
    _schema("the type in capitals", "urn:surefoot:Thing.Happened:1"),
    _schema("no version", "urn:surefoot:thing.happened"),
    _schema("an empty version", "urn:surefoot:thing.happened:"),
    _schema("nothing behind our name", "urn:surefoot:"),
    _schema("version 10 digits long", "urn:surefoot:thing.happened:1000000000"),
    _schema("version 10,000 digits long", "urn:surefoot:thing.happened:" + "1" * 10_000),
    _schema("version 0", "urn:surefoot:thing.happened:0"),
    _schema("version 01", "urn:surefoot:thing.happened:01"),
    _schema("version -1", "urn:surefoot:thing.happened:-1"),
    _schema("version 1.1", "urn:surefoot:thing.happened:1.1"),
    _schema("version 1 of a part", "urn:surefoot:thing.happened:1:number"),
    _schema("version 1 and a fragment", "urn:surefoot:thing.happened:1#number"),
    _schema("a word for a version", "urn:surefoot:thing.happened:latest"),
    _schema("version 2 under URN in capitals", "URN:surefoot:thing.happened:2"),
    _schema("version 2 under our name in capitals", "urn:SUREFOOT:thing.happened:2"),
    _schema("the other type's under URN in capitals", "Urn:surefoot:thing.paid:1"),
    identified(
        structured("structured, the other type's dataschema", "wrong_version", dataschema='"urn:surefoot:thing.paid:1"')
    ),
    identified(structured("structured, version 2", "wrong_version", dataschema='"urn:surefoot:thing.happened:2"')),
    identified(structured("structured, version 999", "wrong_version", dataschema='"urn:surefoot:thing.happened:999"')),
]

CASES = (*BROKEN, *BROKEN_ELSEWHERE, *CONTENT_TYPES, *VERSIONS)

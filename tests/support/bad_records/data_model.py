"""Events whose envelope is good and whose data are JSON, and do not fit the model they were declared with."""

from tests.support.bad_records.case import BadCase, binary, identified, structured, with_data, with_paid_data

MISFITS = [
    with_data(f"misfit, {what}", "invalid_data", value)
    for what, value in {
        "an empty object": b"{}",
        "null": b"null",
        "true": b"true",
        "a number": b"7",
        "a text": b'"t-1"',
        "an empty text": b'""',
        "an object within a text": b'"{\\"thing_id\\":\\"t-1\\"}"',
        "an empty list": b"[]",
        "a list of one": b'[{"thing_id":"t-1"}]',
        "the values alone": b'["t-1",7,"n"]',
        "a required member missing": b'{"number":7,"note":"n"}',
        "a required member null": b'{"thing_id":null}',
        "a required member misspelt": b'{"thingid":"t-1"}',
        "a required member in capitals": b'{"THING_ID":"t-1"}',
        "a required member in camel case": b'{"thingId":"t-1"}',
        "a space in a required member's name": b'{"thing_id ":"t-1"}',
        "a number for a text": b'{"thing_id":7}',
        "a fraction for a text": b'{"thing_id":7.5}',
        "true for a text": b'{"thing_id":true}',
        "a list for a text": b'{"thing_id":["t-1"]}',
        "an object for a text": b'{"thing_id":{"value":"t-1"}}',
        "a member twice, the last one null": b'{"thing_id":"t-1","thing_id":null}',
        "one object too many around it": b'{"thing":{"thing_id":"t-1"}}',
        "data around it": b'{"data":{"thing_id":"t-1"}}',
        "a payload and a schema": b'{"schema":{"type":"struct"},"payload":{"thing_id":"t-1"}}',
        "a structured event for data": b'{"specversion":"1.0","id":"e-1","data":{"thing_id":"t-1"}}',
        "the data of the other type's price": b'{"price":{"minor_units":1999,"currency":"EUR"}}',
        "words for a number": b'{"thing_id":"t-1","number":"seven"}',
        "an empty text for a number": b'{"thing_id":"t-1","number":""}',
        "a text of a fraction for a number": b'{"thing_id":"t-1","number":"7.5"}',
        "a text in hexadecimal for a number": b'{"thing_id":"t-1","number":"0x7"}',
        "a fraction for a number": b'{"thing_id":"t-1","number":7.5}',
        "a tiny fraction for a number": b'{"thing_id":"t-1","number":1e-9}',
        "a number beyond a double": b'{"thing_id":"t-1","number":1e400}',
        "null for a number": b'{"thing_id":"t-1","number":null}',
        "a list for a number": b'{"thing_id":"t-1","number":[7]}',
        "an object for a number": b'{"thing_id":"t-1","number":{"$numberLong":"7"}}',
        "NaN as a text for a number": b'{"thing_id":"t-1","number":"NaN"}',
        "null for an optional text": b'{"thing_id":"t-1","note":null}',
        "a number for an optional text": b'{"thing_id":"t-1","note":1}',
        "a list of texts for an optional text": b'{"thing_id":"t-1","note":["a","b"]}',
        "an object of 100 KB for an optional text": b'{"thing_id":"t-1","note":{"a":"' + b"x" * 100_000 + b'"}}',
        "a list of 50,000 numbers": b"[" + b"1," * 50_000 + b"1]",
        "10,000 members, none of them the required one": b"{"
        + b",".join(b'"m%d":0' % number for number in range(10_000))
        + b"}",
        "a list in lists, 100 deep, for a text": b'{"thing_id":' + b"[" * 100 + b"]" * 100 + b"}",
    }.items()
]

ELSEWHERE = [
    structured("structured, no data", "invalid_data", without="data"),
    structured("structured, null data", "invalid_data", data="null"),
    structured("structured, an empty object for data", "invalid_data", data="{}"),
    structured("structured, a list for data", "invalid_data", data='[{"thing_id":"t-1"}]'),
    structured("structured, data within a text", "invalid_data", data='"{\\"thing_id\\":\\"t-1\\"}"'),
    structured("structured, data of other members", "invalid_data", data='{"id":"t-1"}'),
    structured("structured, a number for a text in the data", "invalid_data", data='{"thing_id":1}'),
    structured("structured, null data_base64 and no data", "invalid_data", '"data_base64":null', without="data"),
    structured("structured, null in Base64", "invalid_data", '"data_base64":"bnVsbA=="', without="data"),
    structured("structured, an empty object in Base64", "invalid_data", '"data_base64":"e30="', without="data"),
    binary("misfit, without a content type", "invalid_data", without="content-type", value=b'{"thing_id":8}'),
    binary(
        "misfit, of a content type of one's own",
        "invalid_data",
        content_type=b"application/vnd.thing+json",
        value=b'{"thing_id":9}',
    ),
    binary(
        "misfit, of a foreign dataschema",
        "invalid_data",
        dataschema=b"https://example.com/thing.json",
        value=b'{"thing_id":10}',
    ),
]


def _price(what: str, price: bytes) -> BadCase:
    return with_paid_data(f"money, {what}", "invalid_data", b'{"thing_id":"t-1","price":' + price + b"}")


MONEY = [
    with_paid_data("money, missing", "invalid_data", b'{"thing_id":"t-1"}'),
    with_paid_data("money, the data of the other type", "invalid_data", b'{"thing_id":"t-1","number":7,"note":"n"}'),
    with_paid_data("money, the thing is missing", "invalid_data", b'{"price":{"minor_units":1999,"currency":"EUR"}}'),
    with_paid_data(
        "money, beside the price", "invalid_data", b'{"thing_id":"t-1","minor_units":1999,"currency":"EUR"}'
    ),
    _price("null", b"null"),
    _price("a float", b"19.99"),
    _price("an integer", b"1999"),
    _price("a text", b'"19.99 EUR"'),
    _price("a text of digits", b'"1999"'),
    _price("true", b"true"),
    _price("an empty object", b"{}"),
    _price("a list", b'[1999,"EUR"]'),
    _price("a list of one price", b'[{"minor_units":1999,"currency":"EUR"}]'),
    _price("without a currency", b'{"minor_units":1999}'),
    _price("without an amount", b'{"currency":"EUR"}'),
    _price("a null currency", b'{"minor_units":1999,"currency":null}'),
    _price("an empty currency", b'{"minor_units":1999,"currency":""}'),
    _price("a currency in small letters", b'{"minor_units":1999,"currency":"eur"}'),
    _price("a currency with a space", b'{"minor_units":1999,"currency":"EUR "}'),
    _price("a currency by its sign", '{"minor_units":1999,"currency":"€"}'.encode()),
    _price("a currency by its name", b'{"minor_units":1999,"currency":"Euro"}'),
    _price("a currency by its number", b'{"minor_units":1999,"currency":978}'),
    _price("a list of currencies", b'{"minor_units":1999,"currency":["EUR"]}'),
    _price("a currency that is gone", b'{"minor_units":1999,"currency":"DEM"}'),
    _price("a currency that was never one", b'{"minor_units":1999,"currency":"BTC"}'),
    _price("the code for no currency", b'{"minor_units":1999,"currency":"XXX"}'),
    _price("gold", b'{"minor_units":1999,"currency":"XAU"}'),
    _price("minor units as a float", b'{"minor_units":19.99,"currency":"EUR"}'),
    _price("minor units as a whole float", b'{"minor_units":1999.0,"currency":"EUR"}'),
    _price("minor units with an exponent", b'{"minor_units":2e3,"currency":"EUR"}'),
    _price("minor units as a text", b'{"minor_units":"1999","currency":"EUR"}'),
    _price("null minor units", b'{"minor_units":null,"currency":"EUR"}'),
    _price("minor units that are true", b'{"minor_units":true,"currency":"EUR"}'),
    _price("a list of minor units", b'{"minor_units":[1999],"currency":"EUR"}'),
    _price("minor units beyond 53 bits", b'{"minor_units":9007199254740992,"currency":"EUR"}'),
    _price("minor units below 53 bits", b'{"minor_units":-9007199254740992,"currency":"EUR"}'),
    _price("minor units of 1,000 digits", b'{"minor_units":' + b"9" * 1_000 + b',"currency":"EUR"}'),
    _price("minor units beyond a double", b'{"minor_units":1e999,"currency":"EUR"}'),
    _price("an amount as a float", b'{"amount":19.99,"currency":"EUR"}'),
    _price("an amount as a text", b'{"amount":"19.99","currency":"EUR"}'),
    _price("a float beside the minor units", b'{"minor_units":1999,"currency":"EUR","amount":19.99}'),
    _price("members in camel case", b'{"minorUnits":1999,"currencyCode":"EUR"}'),
    _price("members in capitals", b'{"MINOR_UNITS":1999,"CURRENCY":"EUR"}'),
    _price("one object too many around it", b'{"price":{"minor_units":1999,"currency":"EUR"}}'),
    _price("within a text", b'"{\\"minor_units\\":1999,\\"currency\\":\\"EUR\\"}"'),
]

CASES = (*MISFITS, *map(identified, ELSEWHERE), *MONEY)

"""The currencies money may be in, and how many decimals each one has.

ISO 4217, list one, as of January 2026 (the Bulgarian lev has become the euro, the Caribbean guilder has replaced the
Antillean one), without the codes that have no minor unit at all: precious metals, bond units, testing, "no currency".
A wrong number of decimals is off by a factor of ten or a hundred, so a currency that is not listed is refused rather
than guessed to have two.
"""

from collections.abc import Mapping
from types import MappingProxyType

_NO_DECIMALS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"

_TWO_DECIMALS = """
    AED AFN ALL AMD AOA ARS AUD AWG AZN
    BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD
    CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK
    DKK DOP DZD EGP ERN ETB EUR FJD FKP
    GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF
    IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT
    LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN
    NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB
    SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL
    THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS
    VED VES WST XAD XCD XCG YER ZAR ZMW ZWG
"""

_THREE_DECIMALS = "BHD IQD JOD KWD LYD OMR TND"

_FOUR_DECIMALS = "CLF UYW"

MINOR_UNIT_DIGITS: Mapping[str, int] = MappingProxyType(
    {
        code: digits
        for digits, codes in ((0, _NO_DECIMALS), (2, _TWO_DECIMALS), (3, _THREE_DECIMALS), (4, _FOUR_DECIMALS))
        for code in codes.split()
    }
)
"""Currency code → decimals: JPY 0, EUR 2, KWD 3."""

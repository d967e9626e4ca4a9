"""Proving a saga: every way that replies, refusals, deaths, timers, events and operators can take it is walked, with
the very engine that runs it; either all properties hold everywhere, or a shortest counter-example is given. Pure.
"""

from surefoot.saga.verify.explore import verify
from surefoot.saga.verify.model import Limits
from surefoot.saga.verify.verdict import MEANING, Line, Property, Proved, TooLarge, Verdict, Violated

__all__ = ["MEANING", "Limits", "Line", "Property", "Proved", "TooLarge", "Verdict", "Violated", "verify"]

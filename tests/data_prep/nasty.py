"""Lines that break tokenizers, and strategies that find more."""

from hypothesis import strategies as st

LINES = [
    "The captain sailed past 300 apples, in 1987, for £3,000.",
    "",
    " \t\u3000 ",
    "  two  spaces,\tand a tab\u00a0and more \u2003 ",
    "PEOPLE and Café №5, ﬁre, ½ … ﷺ Ⅷ",
    "cafe\u0301s \u0301leading and trailing\u0301 \u0301 a\u0315\u0300\u05ae\u0300b",
    "typed [MASK], [CLS] and <unk> and <pad> ##ing",
    "zero\u200bwidth\u200d join\u200c, soft\u00adhyphen, \ufeffbom, \x00 control \x7f \x85 \x1c x\x015,\x02",
    "\x01", "\u0301", "\u200b \u200b", "\ufffd", "\ufffda\ufffd",
    "▁already ▁marked▁",
    "İstanbul DİYARBAKIR ıI ẞß ŉ ǰ",
    "ΟΔΟΣ ΟΔΟΣ. Σ ΑΣ'Α ΑΣ' ΣΑΣ ΑΣ\u00adΑ Α\u0345Σ ᾺΣ 𝚺 A𝚺 ΑΣ\u0301",
    "한국어 \u1112\u1161\u11ab ㅎㅏㄴ ﾊﾝ ｶﾞ が か\u3099",
    "ক\u09c7\u09be \u09c7\u09be\u0bc6\u0bbe \u0958",
    "我喜欢Transformers，在北京。 😀👍🏽 👨\u200d👩\u200d👧 🇩🇪 𝒳𝔘𝟙 𠀀 \U00031350 \U000e0041 \U00100000",
    "''quotes'' ``and`` “these” „those“ « »",
    "1,2, 3,000, 4,5,6, ²,³, ５，６, 7\u0301, 8\u200b, 9\x01,",
    "a" * 5000,
    "٣٤, ۵, ①, ⑩, ㉑ ㍿ ℡ ﬃ",
    "\u2028line\u2029separators\x0b\x0c\r\x1d\x1e\x1f end",
]  # fmt: skip
BROKEN = ["broken \ud800 surrogate", "\ud83d\ude00 two halves", "\udfff"]  # as json.loads returns them

_ODD = st.sampled_from(
    [*" \t\u3000\u0301\u0345\u200b\x00\x01\ufffd▁ΣσςΑİßﬁ½5,'.-\u1112\u1161\u11ab中ab", "ﷺ", "👍🏽"]
)


def texts(max_size: int = 30) -> st.SearchStrategy[str]:
    """Texts of any characters but surrogates, with many odd ones."""
    return st.lists(st.one_of(_ODD, st.characters(exclude_categories=["Cs"])), max_size=max_size).map("".join)

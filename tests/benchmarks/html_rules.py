"""What every page that the program writes as HTML keeps to, looked at by Python's own parser."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br"}
FETCHING = ("src", "srcset", "data", "poster", "action", "formaction", "background", "xlink:href")
LEAST_CONTRAST_TEXT, LEAST_CONTRAST_DRAWN = 4.5, 3.0  # WCAG 2.2, AA: 1.4.3 and 1.4.11

# What stands on what: (ink, ground, least contrast).
ON_GROUND = [
    *(
        (ink, ground, LEAST_CONTRAST_TEXT)
        for ink in ("ink", "muted", "once")
        for ground in ("ground", "card")
    ),
    ("each", "ground", LEAST_CONTRAST_TEXT),  # the key's words have its colour
    *((tone, f"{tone}-ground", LEAST_CONTRAST_TEXT) for tone in ("good", "bad", "unsure", "none")),
    *(
        (drawn, "ground", LEAST_CONTRAST_DRAWN)
        for drawn in ("each", "once", "none", "bad", "muted", "mark")
    ),
    ("mark", "each", LEAST_CONTRAST_DRAWN),  # intervals end within their bars
    ("mark", "once", LEAST_CONTRAST_DRAWN),
]


class Page(HTMLParser):
    """Elements are counted as they come; `complaints` is what is wrong with them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.complaints, self.open, self.ids, self.links = [], [], [], []
        self.count, self.words, self.style = {}, [], ""
        self.feed(text)
        self.close()
        self.complaints += [f"<{name}> is not closed" for name in self.open]
        self.complaints += [f"id {i} twice" for i in {i for i in self.ids if self.ids.count(i) > 1}]
        self.complaints += [f"#{link} leads nowhere" for link in self.links if link not in self.ids]
        if "url(" in self.style or "@import" in self.style:
            self.complaints.append("the style loads something")

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag in ("script", "link", "iframe", "object", "embed", "base", "img"):
            self.complaints.append(f"<{tag}>")
        for name, value in attributes:
            if name in FETCHING or name.startswith("on") or name == "style":
                self.complaints.append(f"<{tag} {name}={value!r}>")
            if name == "href" and not value.startswith("#"):
                self.complaints.append(f"leads out: {value}")
            elif name == "href":
                self.links.append(value[1:])
            if name == "id":
                self.ids.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.complaints.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Returns WCAG's contrast ratio of two colours, "#rrggbb"."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def palettes(style):
    """Returns the colours by name, of light, dark and paper, in the order of the style."""
    return [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    ]


def weak_contrasts(style):
    """Returns the pairs below what WCAG asks, in words; of every palette."""
    return [
        f"palette {number}: {ink} on {ground}: {contrast(palette[ink], palette[ground]):.2f}"
        for number, palette in enumerate(palettes(style))
        for ink, ground, least in ON_GROUND
        if contrast(palette[ink], palette[ground]) < least
    ]

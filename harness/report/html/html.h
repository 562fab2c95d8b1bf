// HTML from blocks and tables: everything that comes from a run is escaped here, in one place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/text/blocks.h"

namespace gradsync::html {

// Returns `text` with nothing in it that a browser would take for markup, in element or attribute;
// control characters become blanks.
std::string escaped(std::string_view text);

// Returns `text` escaped, its `code` and **bold** as elements.
std::string inline_marks(std::string_view text);

// Returns the element with `inside` as it is, which must be HTML. `attributes`: ` class="x"`.
std::string element(const char* name, const std::string& inside,
                    const std::string& attributes = "");

// Returns ` class="value"`.
std::string css_class(std::string_view value);

// How good or bad something is; its words stand beside it, never the colour alone.
enum class Tone { Good, Bad, Unsure, None };

// Returns words on the colour of their tone.
std::string badge(Tone tone, std::string_view words);

// Returns the table in a container that scrolls by itself. `tones`: of each row's first cell; may
// be empty. Where rows leave their first cell blank, one with text below such a row begins a group.
std::string table(const text::TextTable& table, const std::vector<Tone>& tones = {});

// Returns the list; "" without items.
std::string list(const std::vector<std::string>& items);

// Returns the blocks in their order; headings as h4.
std::string blocks(const text::Blocks& blocks);

// Returns a section that is folded until the reader opens it; paper shows it. "" without `inside`.
std::string folded(const std::string& summary, const std::string& inside);

}  // namespace gradsync::html

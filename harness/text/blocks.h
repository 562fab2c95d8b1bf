// The parts of a page, before it is Markdown or HTML: headings, prose, sentences, lists, tables.
//
// Pages are made of blocks so that each of their tables is made once, for every format. Text may
// have `code` and **bold** in it and nothing else that Markdown knows.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "harness/text/text_table.h"

namespace gradsync::text {

struct Heading {
  std::string text;
};

// A paragraph, in lines as a terminal has them; each ends in a newline. HTML lets them flow.
struct Prose {
  std::string text;
};

// Sentences that stand by themselves, a line each.
struct Sentences {
  std::vector<std::string> lines;
};

struct Bullets {
  std::vector<std::string> items;
};

using Block = std::variant<Heading, Prose, Sentences, Bullets, TextTable>;
using Blocks = std::vector<Block>;

// Adds `more` at the end of `blocks`.
void append(Blocks& blocks, const Blocks& more);

// Returns the blocks as Markdown, a blank line between two. Those without text are left out.
std::string to_markdown(const Blocks& blocks);

}  // namespace gradsync::text

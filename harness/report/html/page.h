// The frame of a page that argues: one file, no network, the answer first.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gradsync::html {

// A part of a page. `inside` is HTML.
struct Section {
  std::string id;  // unique in its page
  std::string title;
  std::string inside;
};

struct Page {
  std::string title;              // of the browser's tab
  std::string kicker;             // what kind of page it is, and of what
  std::string answer;             // what came out, in one sentence
  std::string lead;               // HTML: what stands below it
  std::vector<Section> sections;  // one without anything inside is left out
};

// Returns the whole file. It refers to nothing outside itself, follows the reader's choice of light
// or dark, and has no script.
std::string to_html(const Page& page);

// Returns a list of names and values, both text; empty values are left out.
std::string facts(const std::vector<std::pair<std::string, std::string>>& facts);

// The style of every page (style.cpp).
extern const char* const kStyle;

}  // namespace gradsync::html

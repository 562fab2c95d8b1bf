#include "harness/report/html/html.h"

#include <fmt/format.h>

#include <algorithm>

namespace gradsync::html {

using text::Align;
using text::TextTable;

namespace {

const char* class_of(Align align) {
  switch (align) {
    case Align::Left:
      return "l";
    case Align::Right:
      return "r";
    case Align::Centre:
      break;
  }
  return "c";
}

const char* class_of(Tone tone) {
  switch (tone) {
    case Tone::Good:
      return "good";
    case Tone::Bad:
      return "bad";
    case Tone::Unsure:
      return "unsure";
    case Tone::None:
      break;
  }
  return "none";
}

// Replaces each pair of `mark` in escaped text by the element; one without its second stays.
std::string with_element(const std::string& text, std::string_view mark, const char* name) {
  std::string out;
  std::size_t from = 0;
  while (true) {
    const std::size_t open = text.find(mark, from);
    const std::size_t close =
        open == std::string::npos ? open : text.find(mark, open + mark.size());
    if (close == std::string::npos) return out + text.substr(from);
    out += text.substr(from, open - from);
    out += element(name, text.substr(open + mark.size(), close - open - mark.size()));
    from = close + mark.size();
  }
}

bool leaves_blanks(const TextTable& table) {
  return std::ranges::any_of(table.rows(), [](const auto& row) { return row.front().empty(); });
}

std::string cell(const char* name, Align align, const std::string& inside) {
  return element(name, inside, css_class(class_of(align)));
}

struct BlockAsHtml {
  std::string operator()(const text::Heading& heading) const {
    return element("h4", inline_marks(heading.text)) + "\n";
  }
  std::string operator()(const text::Prose& prose) const {
    if (prose.text.empty()) return "";
    return element("p", inline_marks(prose.text), css_class("about")) + "\n";
  }
  std::string operator()(const text::Sentences& sentences) const {
    std::string text;
    for (const std::string& line : sentences.lines) {
      if (!line.empty()) text += element("p", inline_marks(line)) + "\n";
    }
    return text;
  }
  std::string operator()(const text::Bullets& bullets) const { return list(bullets.items); }
  std::string operator()(const TextTable& shown) const { return table(shown); }
};

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return out;
}

std::string inline_marks(std::string_view text) {
  return with_element(with_element(escaped(text), "`", "code"), "**", "strong");
}

std::string element(const char* name, const std::string& inside, const std::string& attributes) {
  return fmt::format("<{}{}>{}</{}>", name, attributes, inside, name);
}

std::string css_class(std::string_view value) {
  return fmt::format(" class=\"{}\"", escaped(value));
}

std::string badge(Tone tone, std::string_view words) {
  return element("span", escaped(words), css_class(std::string("badge ") + class_of(tone)));
}

std::string table(const TextTable& table, const std::vector<Tone>& tones) {
  std::string head;
  for (const auto& column : table.columns()) {
    head += element("th", inline_marks(column.head),
                    " scope=\"col\"" + css_class(class_of(column.align)));
  }
  const bool grouped = leaves_blanks(table);
  std::string body;
  for (std::size_t row = 0; row < table.rows().size(); ++row) {
    const auto& texts = table.rows()[row];
    std::string cells;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const bool has_tone = i == 0 && row < tones.size();
      cells += cell("td", table.columns()[i].align,
                    has_tone ? badge(tones[row], texts[i]) : inline_marks(texts[i]));
    }
    // Its second line says more of the same group.
    const bool is_below_blank = row == 0 || table.rows()[row - 1].front().empty();
    const bool begins = grouped && is_below_blank && !texts.front().empty();
    body += element("tr", cells, begins ? css_class("group") : "") + "\n";
  }
  return "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table>\n" +
         element("thead", element("tr", head)) + "\n<tbody>\n" + body + "</tbody></table></div>\n";
}

std::string list(const std::vector<std::string>& items) {
  if (items.empty()) return "";
  std::string inside;
  for (const std::string& item : items) inside += element("li", inline_marks(item)) + "\n";
  return "<ul>\n" + inside + "</ul>\n";
}

std::string blocks(const text::Blocks& blocks) {
  std::string text;
  for (const text::Block& block : blocks) text += std::visit(BlockAsHtml{}, block);
  return text;
}

std::string folded(const std::string& summary, const std::string& inside) {
  if (inside.empty()) return "";
  return "<details>\n" + element("summary", escaped(summary)) + "\n" + inside + "</details>\n";
}

}  // namespace gradsync::html

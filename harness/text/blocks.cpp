#include "harness/text/blocks.h"

namespace gradsync::text {
namespace {

struct Markdown {
  std::string operator()(const Heading& heading) const { return "## " + heading.text + "\n"; }
  std::string operator()(const Prose& prose) const { return prose.text; }
  std::string operator()(const Sentences& sentences) const { return in_lines(sentences.lines, ""); }
  std::string operator()(const Bullets& bullets) const { return in_lines(bullets.items, "- "); }
  std::string operator()(const TextTable& table) const { return table.to_markdown(); }

  static std::string in_lines(const std::vector<std::string>& lines, const char* before) {
    std::string text;
    for (const std::string& line : lines) text += before + line + "\n";
    return text;
  }
};

}  // namespace

void append(Blocks& blocks, const Blocks& more) {
  blocks.insert(blocks.end(), more.begin(), more.end());
}

std::string to_markdown(const Blocks& blocks) {
  std::string text;
  for (const Block& block : blocks) {
    const std::string written = std::visit(Markdown{}, block);
    if (written.empty()) continue;
    text += (text.empty() ? "" : "\n") + written;
  }
  return text;
}

}  // namespace gradsync::text

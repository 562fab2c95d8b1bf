#include "harness/report/formats.h"

#include "harness/report/part_page.h"
#include "harness/report/tables.h"
#include "harness/summary/part_view.h"

namespace gradsync::report {

using results::Result;
using summary::PartView;
using text::Blocks;
using text::Sentences;

namespace {

Blocks blocks_of(const PartPage& page) {
  Blocks blocks;
  if (!page.name.empty()) blocks.emplace_back(text::Heading{page.name});
  if (!page.about.empty()) blocks.emplace_back(text::Prose{page.about + "\n"});
  blocks.emplace_back(Sentences{page.terms});
  text::append(blocks, page.table);
  blocks.emplace_back(page.notes);
  text::append(blocks, page.more);
  blocks.emplace_back(Sentences{page.findings});
  return blocks;
}

}  // namespace

std::string result_markdown(const Result& result, const References& references,
                            const MarkdownOptions& options) {
  Blocks blocks{Sentences{head_lines(result)}};
  const std::vector<PartView> parts = summary::parts_of(result);
  for (const PartView& part : parts) text::append(blocks, blocks_of(part_page(part, references)));
  text::append(blocks, guide_memory_table(parts, references.memory_table));
  if (!options.raw_directory.empty()) {
    blocks.emplace_back(Sentences{{"Raw: " + options.raw_directory}});
  }
  return text::to_markdown(blocks);
}

}  // namespace gradsync::report

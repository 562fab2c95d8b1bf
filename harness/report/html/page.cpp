#include "harness/report/html/page.h"

#include <fmt/format.h>

#include "harness/base/build_info.h"
#include "harness/report/html/html.h"

namespace gradsync::html {

namespace {

std::string section_of(const Section& section) {
  if (section.inside.empty()) return "";
  return fmt::format("<section id=\"{}\">\n{}\n{}</section>\n", escaped(section.id),
                     element("h2", escaped(section.title)), section.inside);
}

// Nothing may be loaded from anywhere, whatever a run has smuggled in.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'";

}  // namespace

std::string to_html(const Page& page) {
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n";
  text += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", kPolicy);
  text += element("title", escaped(page.title)) + "\n<style>" + kStyle + "</style>\n</head>\n";
  text += "<body>\n<main>\n<header>\n" + element("p", escaped(page.kicker), css_class("kicker")) +
          "\n" + element("h1", inline_marks(page.answer)) + "\n" + page.lead + "</header>\n";
  for (const Section& section : page.sections) text += section_of(section);
  text +=
      fmt::format("<footer><p>Written by gradsync {}; this file needs no network.</p></footer>\n",
                  escaped(build_info().version));
  return text + "</main>\n</body>\n</html>\n";
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string inside;
  for (const auto& [name, value] : facts) {
    if (value.empty()) continue;
    inside += element("dt", escaped(name)) + element("dd", inline_marks(value)) + "\n";
  }
  return inside.empty() ? "" : "<dl>\n" + inside + "</dl>\n";
}

}  // namespace gradsync::html

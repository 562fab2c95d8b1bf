#include "harness/report/html/bars.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/report/html/html.h"

namespace gradsync::html {

namespace {

// Pixels of the picture beside a row's words: its height, and its middle.
constexpr int kHeight = 20;
constexpr double kMiddle = kHeight / 2.0;
constexpr int kThickness = 11;
constexpr double kBarAt = (kHeight - kThickness) / 2.0;

const char* class_of(Hue hue) {
  switch (hue) {
    case Hue::SyncsEach:
      return "each";
    case Hue::SyncsOnce:
      return "once";
    case Hue::Rest:
      break;
  }
  return "rest";
}

std::string percent(double share) {
  return fmt::format("{:.3f}%", 100 * std::clamp(share, 0.0, 1.0));
}

std::string line(const char* name, double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"></line>",
                     name, percent(x1), y1, percent(x2), y2);
}

// From top to bottom of the picture.
std::string upright(const char* name, double x) {
  return line(name, x, 0, x, kHeight);
}

// From its lower to its upper end, with a cap at each; shares of the width.
std::string whisker(double lo, double hi) {
  constexpr double kCap = 4;
  return line("interval", lo, kMiddle, hi, kMiddle) +
         line("interval", lo, kMiddle - kCap, lo, kMiddle + kCap) +
         line("interval", hi, kMiddle - kCap, hi, kMiddle + kCap);
}

std::string rect(const char* name, double width) {
  return fmt::format(
      "<rect class=\"{}\" x=\"0\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"2\"></rect>", name,
      kBarAt, percent(width), kThickness);
}

// The words of a row and below them its picture, which says nothing that they do not.
std::string row(const std::string& label, const std::string& value, const std::string& drawn) {
  return element("p",
                 element("span", escaped(label)) + " " +
                     element("span", escaped(value), css_class("value")),
                 css_class("row")) +
         fmt::format("<svg aria-hidden=\"true\" height=\"{}\">{}</svg>\n", kHeight, drawn);
}

std::string group(const std::string& title, const std::string& rows) {
  return fmt::format("<div class=\"bars\" role=\"group\" aria-label=\"{}\">\n{}</div>\n",
                     escaped(title), rows);
}

}  // namespace

double longest(const std::vector<Bars>& groups) {
  double full = 0;
  for (const Bars& group : groups) {
    full = std::max(full, group.limit.value_or(0));
    for (const Bar& bar : group.bars) {
      full = std::max({full, bar.length, bar.interval ? bar.interval->hi : 0});
    }
  }
  return full;
}

std::string bars(const Bars& picture, double full) {
  std::string rows;
  for (const Bar& bar : picture.bars) {
    std::string drawn =
        rect("track", 1) + rect(bar.is_outline ? "out" : class_of(bar.hue), bar.length / full);
    if (bar.interval) drawn += whisker(bar.interval->lo / full, bar.interval->hi / full);
    if (picture.limit) drawn += upright("limit", *picture.limit / full);
    rows += row(bar.label, bar.value, drawn);
  }
  return group(picture.title, rows);
}

std::string forest(const Forest& picture) {
  if (picture.effects.empty()) return "";
  double lo = 0;
  double hi = 0;
  const auto hold = [&](double value) {
    lo = std::min(lo, value);
    hi = std::max(hi, value);
  };
  for (const double limit : picture.limits) hold(limit);
  for (const Effect& effect : picture.effects) {
    hold(effect.at);
    if (!effect.interval) continue;
    hold(effect.interval->lo);
    hold(effect.interval->hi);
  }
  constexpr double kMargin = 0.03;  // to either side
  const double width = hi > lo ? (hi - lo) * (1 + 2 * kMargin) : 1;
  const double from = lo - (hi - lo) * kMargin;
  const auto share = [&](double value) { return (value - from) / width; };
  std::string rows;
  for (const Effect& effect : picture.effects) {
    std::string drawn = upright("zero", share(0));
    for (const double limit : picture.limits) drawn += upright("limit", share(limit));
    if (effect.interval) drawn += whisker(share(effect.interval->lo), share(effect.interval->hi));
    drawn += fmt::format("<circle class=\"dot\" cx=\"{}\" cy=\"{:.1f}\" r=\"4\"></circle>",
                         percent(share(effect.at)), kMiddle);
    rows += row(effect.label, effect.value, drawn);
  }
  return group(picture.title, rows);
}

std::string figure(const std::string& caption, const std::string& pictures) {
  if (pictures.empty()) return "";
  return "<figure>\n" + element("figcaption", caption) + "\n" + pictures + "</figure>\n";
}

std::string hue_key() {
  return element("span", "synchronizes in every micro-batch", css_class("key each")) + " " +
         element("span", "once per step", css_class("key once"));
}

}  // namespace gradsync::html

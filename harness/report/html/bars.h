// Pictures as inline SVG: bars from zero, and intervals about a line.
//
// Lengths across are percentages, so that a picture is as wide as its page, on a telephone as on a
// desk. Every value stands above its bar in words that wrap, so that readers who do not see the bar
// miss nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/stats/interval.h"

namespace gradsync::html {

// What a bar's colour says; a caption explains it.
enum class Hue { SyncsEach, SyncsOnce, Rest };

struct Bar {
  std::string label;
  std::string value;  // in words, beside it
  double length = 0;  // from zero
  Hue hue = Hue::Rest;
  std::optional<stats::Interval> interval;  // of its end
  bool is_outline = false;                  // it would be longer: out of memory
};

// Bars on one scale.
struct Bars {
  std::string title;  // what a screen reader says
  std::vector<Bar> bars;
  std::optional<double> limit;  // a dashed line across all of them
};

// Returns the largest length that bars, intervals and limits have; `groups` then share the scale.
double longest(const std::vector<Bars>& groups);

// Returns the picture on a scale from 0 to `full`, which must be positive.
std::string bars(const Bars& picture, double full);

// An effect on a line with zero in it.
struct Effect {
  std::string label;
  std::string value;
  double at = 0;
  std::optional<stats::Interval> interval;
};

struct Forest {
  std::string title;
  std::vector<Effect> effects;
  std::vector<double> limits;  // dashed lines, such as a margin
};

// Returns the picture on a scale that holds zero, every effect and limit. "" without effects.
std::string forest(const Forest& picture);

// Returns a figure of `pictures`, which are HTML, under its caption (HTML); "" without pictures.
std::string figure(const std::string& caption, const std::string& pictures);

// Returns the caption's explanation of the two hues.
std::string hue_key();

}  // namespace gradsync::html

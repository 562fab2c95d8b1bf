// Many rows of one struct as their file has them: column by column, each named once.
//
//   [{"op": "send", "end_s": 1}, {"op": "recv", "end_s": 2}]     a list of objects (fields.h)
//   {"op": ["send", "recv"], "end_s": [1, 2]}                    Columns<Row>
//
// Columns are those of the row's list of fields, all of the same length; a column of maps is an
// object with a column for each key, null where a row has no such key. It is smaller and faster
// read than objects, and what data frames are made from.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "harness/base/fields.h"

namespace gradsync {

template <typename Row>
struct Columns {
  std::vector<Row> rows;
};

namespace fields_detail {

inline const json::array_t& column_from(const json& in, std::size_t rows, const FieldPlace& place) {
  const json::array_t& column = list_from(in, place);
  if (column.size() == rows) return column;
  place.fail(&in, std::to_string(rows) + " items, as many as the first column");
}

// One column; `get(row)` is its value in a row.
template <typename Value>
struct ColumnFormat {
  template <typename Row, typename Get>
  static json to_json(const std::vector<Row>& rows, Get get) {
    json column = json::array();
    for (const Row& row : rows) column.push_back(FormatOf<Value>::to_json(get(row)));
    return column;
  }
  template <typename Row, typename Get>
  static void from_json(const json& in, std::vector<Row>& rows, Get get, const FieldPlace& place) {
    const json::array_t& column = column_from(in, rows.size(), place);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      FormatOf<Value>::from_json(column[i], get(rows[i]), place.item(i));
    }
  }
};

template <typename Value>
struct ColumnFormat<std::map<std::string, Value>> {
  template <typename Row, typename Get>
  static json to_json(const std::vector<Row>& rows, Get get) {
    json columns = json::object();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (const auto& [key, value] : get(rows[i])) {
        json& column = columns[key];
        if (column.is_null()) column = json::array_t(rows.size());
        column[i] = FormatOf<Value>::to_json(value);
      }
    }
    return columns;
  }
  template <typename Row, typename Get>
  static void from_json(const json& in, std::vector<Row>& rows, Get get, const FieldPlace& place) {
    for (const auto& [key, column] : object_from(in, place)) {
      const FieldPlace at = place.field(key);
      const json::array_t& values = column_from(column, rows.size(), at);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (values[i].is_null()) continue;
        FormatOf<Value>::from_json(values[i], get(rows[i])[key], at.item(i));
      }
    }
  }
};

template <typename Row>
struct FormatOf<Columns<Row>> {
  static json to_json(const Columns<Row>& columns) {
    json out = json::object();
    std::apply([&](const auto&... each) { (write(each, columns.rows, out), ...); }, kFields);
    return out;
  }
  static void from_json(const json& in, Columns<Row>& columns, const FieldPlace& place) {
    columns.rows.clear();
    const auto first = object_from(in, place).find(std::get<0>(kFields).name);
    if (first != in.get_ref<const json::object_t&>().end()) {
      const FieldPlace at = place.field(first->first);
      columns.rows.resize(list_from(first->second, at).size());
    }
    std::apply([&](const auto&... each) { (read(each, in, columns.rows, place), ...); }, kFields);
  }

 private:
  static constexpr auto kFields = fields_of(static_cast<const Row*>(nullptr));

  template <typename Owner, typename Value>
  static void write(const Field<Owner, Value>& field, const std::vector<Row>& rows, json& out) {
    const auto get = [&](const Row& row) -> const Value& { return row.*field.member; };
    out[field.name] = ColumnFormat<Value>::to_json(rows, get);
  }
  template <typename Owner, typename Value>
  static void read(const Field<Owner, Value>& field, const json& in, std::vector<Row>& rows,
                   const FieldPlace& place) {
    const FieldPlace at = place.field(field.name);
    const auto found = in.find(field.name);
    if (found == in.end()) at.fail(nullptr, "this column, it is required");
    const auto get = [&](Row& row) -> Value& { return row.*field.member; };
    ColumnFormat<Value>::from_json(*found, rows, get, at);
  }
};

}  // namespace fields_detail

}  // namespace gradsync

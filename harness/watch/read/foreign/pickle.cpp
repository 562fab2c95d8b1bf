#include "harness/watch/read/foreign/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::watch {

using nlohmann::json;

namespace {

constexpr char kProto = '\x80';
constexpr int kOldestProtocol = 2;
constexpr int kNewestProtocol = 5;
// Values and memo entries of one pickle. Larger: a small file could ask for more memory, by
// repeating what it remembers.
constexpr std::size_t kMostValues = 10'000'000;

// Opcodes that run or name something of Python's; any other that is not read is refused by its
// number.
constexpr std::array<std::pair<char, const char*>, 14> kRefused{{
    {'c', "GLOBAL"},
    {'\x93', "STACK_GLOBAL"},
    {'R', "REDUCE"},
    {'b', "BUILD"},
    {'i', "INST"},
    {'o', "OBJ"},
    {'\x81', "NEWOBJ"},
    {'\x92', "NEWOBJ_EX"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {'\x82', "EXT1"},
    {'\x83', "EXT2"},
    {'\x84', "EXT4"},
    {'\x97', "NEXT_BUFFER"},
}};

// A value on the stack: its depth guards who walks it recursively.
struct Value {
  json data;
  int depth = 0;
  std::size_t size = 1;               // values in it
  std::optional<std::uint64_t> memo;  // where it is remembered: what is added to it is there too
};

class Unpickler {
 public:
  Unpickler(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  json run() {
    if (!is_pickle(bytes_)) fail("other bytes", "a pickle of protocol 2 to 5");
    while (true) {
      const char opcode = byte();
      if (opcode == '.') break;
      step(opcode);
    }
    if (stack_.size() != 1 || !marks_.empty()) {
      fail(fmt::format("{} values left", stack_.size()), "one value at its end");
    }
    return std::move(stack_.back().data);
  }

 private:
  [[noreturn]] void fail(const std::string& got, const std::string& expected) const {
    throw ConfigError(name_, fmt::format("byte {}", at_), got, expected);
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("the end of the file", fmt::format("{} bytes", count));
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }

  char byte() { return take(1)[0]; }

  // Little-endian, of so many bytes.
  std::uint64_t number(int count) {
    std::uint64_t value = 0;
    const std::string_view part = take(static_cast<std::uint64_t>(count));
    for (int i = count; i-- > 0;) value = value << 8U | static_cast<unsigned char>(part[i]);
    return value;
  }

  void count_values(std::size_t size) {
    values_ += size;
    if (values_ > kMostValues) fail("more values", fmt::format("at most {}", kMostValues));
  }

  void push(json data, int depth = 0, std::size_t size = 1) {
    count_values(size);
    if (depth > kDeepestJson) {
      fail("values nested more deeply", fmt::format("at most {} levels", kDeepestJson));
    }
    stack_.push_back({std::move(data), depth, size, std::nullopt});
  }

  Value pop() {
    if (stack_.size() <= floor()) fail("an opcode without its values", "a value before it");
    Value value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Value& top() {
    if (stack_.size() <= floor()) fail("an opcode without its values", "a value before it");
    return stack_.back();
  }

  std::vector<Value> pop_to_mark() {
    if (marks_.empty()) fail("an opcode without its MARK", "a MARK before it");
    std::vector<Value> values(
        std::make_move_iterator(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back())),
        std::make_move_iterator(stack_.end()));
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }

  std::vector<Value> pop_some(std::size_t count) {
    std::vector<Value> values(count);
    for (std::size_t i = count; i-- > 0;) values[i] = pop();
    return values;
  }

  void grow(Value& outer, const Value& inner) {
    outer.depth = std::max(outer.depth, inner.depth + 1);
    outer.size += inner.size;
    if (outer.depth > kDeepestJson) {
      fail("values nested more deeply", fmt::format("at most {} levels", kDeepestJson));
    }
  }

  void append(std::vector<Value> values) {
    Value& list = top();
    if (!list.data.is_array()) fail(quote(list.data), "a list to append to");
    for (Value& value : values) {
      grow(list, value);
      list.data.push_back(std::move(value.data));
    }
    remember_again(list);
  }

  void set_items(std::vector<Value> values) {
    Value& dictionary = top();
    if (!dictionary.data.is_object()) fail(quote(dictionary.data), "a dictionary to add to");
    if (values.size() % 2 != 0) fail("a key without its value", "pairs of both");
    for (std::size_t i = 0; i < values.size(); i += 2) {
      grow(dictionary, values[i + 1]);
      dictionary.data[key_of(values[i].data)] = std::move(values[i + 1].data);
    }
    remember_again(dictionary);
  }

  // JSON has keys of text alone; those that are numbers become theirs.
  std::string key_of(const json& key) const {
    if (key.is_string()) return key.get<std::string>();
    if (key.is_number_integer() || key.is_boolean() || key.is_null()) return key.dump();
    fail(quote(key), "a key that is text or a number");
  }

  void push_list(std::vector<Value> values) {
    push(json::array());
    append(std::move(values));
  }

  void push_text(std::uint64_t size) {
    json text = std::string(take(size));
    try {
      text.dump();
    } catch (const json::exception&) {
      fail("other bytes", "text in UTF-8");
    }
    push(std::move(text));
  }

  void push_long(std::uint64_t size) {
    if (size > sizeof(std::int64_t)) {
      fail(fmt::format("an integer of {} bytes", size), "one of at most 8");
    }
    std::uint64_t value = number(static_cast<int>(size));
    const unsigned bits = 8 * static_cast<unsigned>(size);
    if (bits > 0 && bits < 64 && (value >> (bits - 1U) & 1U) != 0)
      value |= ~std::uint64_t{0} << bits;
    push(static_cast<std::int64_t>(value));
  }

  void push_double() {
    std::uint64_t bits = 0;
    for (const char each : take(sizeof bits)) bits = bits << 8U | static_cast<unsigned char>(each);
    push(std::bit_cast<double>(bits));
  }

  void remember(std::uint64_t key) {
    top().memo = key;
    memo_[key] = top();
  }

  // Pickles remember a container before they fill it.
  void remember_again(const Value& container) {
    if (!container.memo) return;
    count_values(container.size);
    memo_[*container.memo] = container;
  }

  void recall(std::uint64_t key) {
    const auto known = memo_.find(key);
    if (known == memo_.end()) fail(fmt::format("memo {}", key), "one that was put before");
    push(known->second.data, known->second.depth, known->second.size);
  }

  bool push_scalar(char opcode) {
    switch (opcode) {
      case 'N':
        push(nullptr);
        return true;
      case '\x88':
        push(true);
        return true;
      case '\x89':
        push(false);
        return true;
      case 'J':
        push(static_cast<std::int32_t>(number(4)));
        return true;
      case 'K':
        push(static_cast<std::int64_t>(number(1)));
        return true;
      case 'M':
        push(static_cast<std::int64_t>(number(2)));
        return true;
      case '\x8a':
        push_long(number(1));
        return true;
      case '\x8b':
        push_long(number(4));
        return true;
      case 'G':
        push_double();
        return true;
      case 'X':
      case 'T':
      case 'B':
        push_text(number(4));
        return true;
      case 'U':
      case 'C':
      case '\x8c':
        push_text(number(1));
        return true;
      case '\x8d':
      case '\x8e':
        push_text(number(8));
        return true;
      default:
        return false;
    }
  }

  bool make_container(char opcode) {
    switch (opcode) {
      case ']':
      case ')':
        push(json::array());
        return true;
      case '}':
        push(json::object());
        return true;
      case 'l':
      case 't':
        push_list(pop_to_mark());
        return true;
      case '\x85':
        push_list(pop_some(1));
        return true;
      case '\x86':
        push_list(pop_some(2));
        return true;
      case '\x87':
        push_list(pop_some(3));
        return true;
      case 'a':
        append(pop_some(1));
        return true;
      case 'e':
        append(pop_to_mark());
        return true;
      case 's':
        set_items(pop_some(2));
        return true;
      case 'u':
        set_items(pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool keep_house(char opcode) {
    switch (opcode) {
      case kProto:
        byte();
        return true;
      case '\x95':
        take(8);
        return true;  // FRAME
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      case 'q':
        remember(number(1));
        return true;
      case 'r':
        remember(number(4));
        return true;
      case '\x94':
        remember(memo_.size());
        return true;
      case 'h':
        recall(number(1));
        return true;
      case 'j':
        recall(number(4));
        return true;
      default:
        return false;
    }
  }

  void step(char opcode) {
    if (push_scalar(opcode) || make_container(opcode) || keep_house(opcode)) return;
    for (const auto& [refused, name] : kRefused) {
      if (opcode == refused) {
        fail(fmt::format("the opcode {}, which may run code", name), "plain data");
      }
    }
    fail(fmt::format("the opcode 0x{:02x}", static_cast<unsigned char>(opcode)), "plain data");
  }

  std::string_view bytes_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, Value> memo_;
};

}  // namespace

bool is_pickle(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == kProto && bytes[1] >= kOldestProtocol &&
         bytes[1] <= kNewestProtocol;
}

json parse_pickle(std::string_view bytes, const std::string& name) {
  return Unpickler(bytes, name).run();
}

}  // namespace gradsync::watch

// SPDX-License-Identifier: MIT
//
// What the descriptions of tables promise (profile/tables/column.h), for each table of the list:
// the schema says the same, what is written is read back, and a weight is the same as adding as
// often.
#include "profile/tables/column.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "profile/file/json_object.h"
#include "profile/file/json_writer.h"
#include "profile/profile.h"
#include "profile/tables/table_rows.h"

namespace shadowprof {
namespace {

using namespace profile;
using Document = nlohmann::json;
using Names = std::set<std::string>;

class Text final : public json::TextSink, public json::TextPieces {
 public:
  void write(std::string_view s) override { text += s; }
  std::string_view next() override { return std::exchange(left_, {}); }
  void rewind() { left_ = text; }
  std::string text;

 private:
  std::string_view left_;
};

std::string written(const Tables& tables) {
  Text out;
  json::Writer w(out);
  w.open();
  json::write_tables(w, tables, true);
  w.close();
  return out.text;
}

json::Json parsed(const std::string& text) {
  Text in;
  in.text = text;
  in.rewind();
  return json::parse(in);
}

Tables read(const std::string& text) {
  const json::Json document = parsed(text);
  return json::read_tables(json::Object(document, "").object("tables"));
}

struct Counted {
  uint64_t old = 0;
  uint64_t later = 0;
};
constexpr Columns kCountedColumns{column<&Counted::old>("old"),
                                  column<&Counted::later>("later").newer()};

// Other numbers in each column, as far as it can hold them.
template <typename Row>
Row filled(std::span<const Column<Row>> columns, uint64_t& number) {
  Row row;
  for (const Column<Row>& c : columns) {
    if (c.is_list()) continue;
    number++;
    const uint64_t end = c.names ? c.names->words.size() : c.most;
    c.set(row, end > number ? number : number % (end + (c.names ? 0 : 1)));
  }
  return row;
}

template <typename Layout>
typename Layout::Row filled_row(const Layout& layout, uint64_t& number) {
  auto row = filled(layout.columns, number);
  const auto fill = [&](const auto& child) {
    for (int i = 0; i < 2; i++) child.of(row).push_back(filled(child.columns, number));
  };
  std::apply([&](const auto&... child) { (fill(child), ...); }, layout.children);
  return row;
}

// Three rows of each table.
Tables filled_tables() {
  Tables tables;
  uint64_t number = 0;
  for_each_table([&](const auto& layout, auto member) {
    for (int i = 0; i < 3; i++) (tables.*member).push_back(filled_row(layout, number));
  });
  return tables;
}

// All numbers of a row and of what its children have of it.
template <typename Layout, typename Row>
std::vector<uint64_t> numbers_of(const Layout& layout, const Row& row) {
  std::vector<uint64_t> numbers;
  with_children(layout, row, [&](const auto& columns, const auto& object) {
    for (const auto& c : columns)
      if (!c.is_list()) numbers.push_back(c.get(object));
  });
  return numbers;
}

// Columns that a weight multiplies, added up over the row and each of its children.
template <typename Layout, typename Row>
std::map<std::string, uint64_t> sums_of(const Layout& layout, const Row& row) {
  std::map<std::string, uint64_t> sums;
  with_children(layout, row, [&](const auto& columns, const auto& object) {
    const bool is_child = !std::is_same_v<std::remove_cvref_t<decltype(object)>, Row>;
    for (const auto& c : columns)
      if (c.merging == Merging::sum)
        sums[(is_child ? "child " : "") + std::string(c.name)] += c.get(object);
  });
  return sums;
}

Names names_in(const Document& list) {
  return list.get<Names>();
}

Names members_of(const Document& schema) {
  Names names;
  for (const auto& [name, field] : schema["properties"].items()) names.insert(name);
  return names;
}

std::string text_of(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += name + ' ';
  return text;
}

template <typename Row>
void compare_with_schema(const Document& schema, std::span<const Column<Row>> columns,
                         Names names = {}) {
  Names required = names;
  for (const Column<Row>& c : columns) {
    CHECK_MESSAGE(names.insert(c.name).second, c.name);
    if (c.stored == Stored::always) required.insert(c.name);
    if (!c.is_list()) continue;
    CHECK(names_in(schema.at("properties").at(c.name).at("items").at("enum")) ==
          Names(c.names->words.begin(), c.names->words.end()));
  }
  CHECK(text_of(members_of(schema)) == text_of(names));
  CHECK(text_of(names_in(schema["required"])) == text_of(required));
}

Document schema() {
  std::ifstream file(PROFILE_SCHEMA);
  REQUIRE(file.good());
  return Document::parse(file)["properties"];
}

TEST_CASE("the schema has the tables and columns that the descriptions have") {
  const Document tables = schema()["tables"];
  Names names, required;
  for_each_table([&](const auto& layout, auto) {
    CAPTURE(std::string(layout.name));
    CHECK(names.insert(layout.name).second);
    if (layout.written == Written::always) required.insert(layout.name);
    compare_with_schema(tables["properties"][layout.name], layout.columns);
    const auto compare_child = [&](const auto& child) {
      CHECK(names.insert(child.name).second);
      compare_with_schema(tables["properties"][child.name], child.columns, {child.row});
    };
    std::apply([&](const auto&... child) { (compare_child(child), ...); }, layout.children);
  });
  CHECK(text_of(members_of(tables)) == text_of(names));
  CHECK(text_of(names_in(tables["required"])) == text_of(required));
}

TEST_CASE("the schema has the hotlists that are listed") {
  const Document hotlists = schema()["hotlists"];
  Names names, required;
  for_each_hotlist([&](const char* name, auto, Stored stored, auto) {
    CHECK_MESSAGE(names.insert(name).second, name);
    if (stored == Stored::always) required.insert(name);
  });
  CHECK(text_of(members_of(hotlists)) == text_of(names));
  CHECK(text_of(names_in(hotlists["required"])) == text_of(required));
}

TEST_CASE("the schema has the counters that the descriptions have") {
  const Document coverage = schema()["coverage"]["properties"];
  const Document overhead = schema()["overhead"];
  compare_with_schema<TimelineRow>(overhead["properties"]["timeline"], kTimelineColumns);
  compare_with_schema<Verified>(coverage["verified"], kVerifiedColumns);
  compare_with_schema<AccessCounts>(coverage["accesses"], kAccessCountColumns);
  compare_with_schema<StreamCounts>(coverage["streams"], kStreamCountColumns);
  compare_with_schema<ProbeInfo>(schema()["probes"]["items"], kProbeInfoColumns,
                                 {"name", "text", "action", "columns"});
  compare_with_schema<PluginInfo>(
      schema()["plugins"]["items"], kPluginInfoColumns,
      {"name", "weight", "columns", "file", "problems", "texts"});
  compare_with_schema<PathCounts>(coverage["paths"], kPathCountColumns, {"scope"});
  for (const auto& counts : kCoverageCounts)
    CHECK(names_in(schema()["coverage"]["required"]).contains(counts.name) == counts.required);
  for (const auto& counts : kOverheadCounts) {
    CHECK(overhead["properties"].contains(counts.name));
    CHECK(names_in(overhead["required"]).contains(counts.name) == counts.required);
  }
}

TEST_CASE("each column keeps the number that it is given, whatever the others have") {
  for_each_table([](const auto& layout, auto) {
    uint64_t number = 0;
    const auto row = filled(layout.columns, number);
    number = 0;
    for (const auto& c : layout.columns) {
      if (c.is_list()) continue;
      number++;
      CAPTURE(std::string(layout.name));
      CAPTURE(std::string(c.name));
      const uint64_t end = c.names ? c.names->words.size() : c.most + 1;
      const uint64_t has = c.get(row);
      CHECK((has == number || has == 1 || (end != 0 && end <= number && has == number % end)));
    }
  });
}

TEST_CASE("each table is read back as it was written") {
  const Tables tables = filled_tables();
  const std::string text = written(tables);
  const Tables back = read(text);
  for_each_table([&](const auto& layout, auto member) {
    CAPTURE(std::string(layout.name));
    REQUIRE((back.*member).size() == (tables.*member).size());
    for (size_t i = 0; i < (back.*member).size(); i++)
      CHECK(numbers_of(layout, (back.*member)[i]) == numbers_of(layout, (tables.*member)[i]));
  });
  CHECK(written(back) == text);
}

TEST_CASE("columns that older profiles lack have 0") {
  Document document = Document::parse(written(filled_tables()));
  for_each_table([&](const auto& layout, auto) {
    for (const auto& c : layout.columns)
      if (c.stored != Stored::always) document["tables"][layout.name].erase(c.name);
  });
  const Tables back = read(document.dump());
  for_each_table([&](const auto& layout, auto member) {
    REQUIRE((back.*member).size() == 3);
    for (const auto& c : layout.columns)
      if (c.stored != Stored::always) CHECK_MESSAGE(c.get((back.*member)[1]) == 0, c.name);
  });
}

TEST_CASE("a counter that older profiles lack is 0, and any other is missing") {
  const auto read_counters = [&](const std::string& text) {
    const json::Json document = parsed(text);
    Counted counted;
    json::Object(document, "").numbers(kCountedColumns, counted);
    return counted;
  };
  CHECK(read_counters(R"({"old": 3, "later": 5})").later == 5);
  CHECK(read_counters(R"({"old": 3})").later == 0);
  CHECK_THROWS_AS((void)read_counters(R"({"later": 5})"), json::Bad);
}

TEST_CASE("a number that a column cannot hold is refused with its place") {
  const Document good = Document::parse(written(filled_tables()));
  const auto error_of = [&](const char* table, const char* column, uint64_t number) {
    Document bad = good;
    bad["tables"][table][column][1] = number;
    try {
      (void)read(bad.dump());
    } catch (const json::Bad& e) {
      return e.what;
    }
    return std::string();
  };
  CHECK(error_of("blocks", "module", 1ull << 32) == "tables.blocks.module[1] is too large");
  CHECK(error_of("values", "part", 4) == "tables.values.part[1] is no part of an instruction");
  CHECK(error_of("values", "bits", 256) == "tables.values.bits[1] is too large");
  CHECK(error_of("arguments", "argument", 10) == "tables.arguments.argument[1] is no argument");
  CHECK(error_of("latencies", "kind", 4) == "tables.latencies.kind[1] is not in the list of kinds");
  CHECK(error_of("latencies", "stride", 1ull << 63) == "tables.latencies.stride[1] is too large");
  CHECK(error_of("latencies", "instruction", 8) ==
        "tables.latencies.instruction[1] is no kind of load");
  CHECK(error_of("latency_pages", "class", 5) ==
        "tables.latency_pages.class[1] is no class of latency");
  CHECK(error_of("latency_buckets", "bucket", 80) ==
        "tables.latency_buckets.bucket[1] is no bucket");
  CHECK(error_of("path_blocks", "path", 3) == "tables.path_blocks.path[1] is not a row");
  CHECK(error_of("contexts", "caller", 1ull << 32) == "tables.contexts.caller[1] is too large");
}

TEST_CASE("a list of names may be in another order, but has no name that nobody knows") {
  Document document = Document::parse(written(filled_tables()));
  Document& edges = document["tables"]["edges"];
  edges["kinds"] = {"ret", "jump"};
  edges["kind"] = {0, 1, 1};
  const Tables back = read(document.dump());
  CHECK(back.edges[0].kind == EdgeKind::ret);
  CHECK(back.edges[2].kind == EdgeKind::jump);
  edges["kinds"] = {"ret", "leap"};
  CHECK_THROWS_AS((void)read(document.dump()), json::Bad);
}

TEST_CASE("a weight of three is the same as adding three times") {
  for_each_table([](const auto& layout, auto) {
    using Row = typename std::remove_cvref_t<decltype(layout)>::Row;
    if constexpr (Keyed<Row>) {
      CAPTURE(std::string(layout.name));
      uint64_t number = 0;
      std::vector<Row> once = {filled_row(layout, number), filled_row(layout, number)};
      std::vector<Row> added = once, multiplied = once;
      for (int i = 0; i < 2; i++) added.insert(added.end(), once.begin(), once.end());
      join_equal(layout, added);
      multiply_rows(layout, multiplied, 3);
      REQUIRE(added.size() == 2);
      for (size_t i = 0; i < 2; i++) {
        const auto sums = sums_of(layout, once[i]);
        CHECK(sums_of(layout, added[i]) == sums_of(layout, multiplied[i]));
        for (const auto& sum : sums_of(layout, multiplied[i]))
          CHECK_MESSAGE(sum.second == 3 * sums.at(sum.first), sum.first);
      }
    }
  });
}

TEST_CASE("modules get other numbers wherever a row names one") {
  Tables tables;
  const std::vector<uint32_t> modules = {2, 0, 1};
  tables.values.resize(2);
  tables.values[1].has_context = true;
  tables.latency_pages.resize(2);
  tables.latency_pages[1] = {LatencyClass::l2, {true, {0, 7}}, 1, CodeRef{1, 8}};
  tables.paths = {{1, 1, 0, {}, {{1, 5}, {2, 6}}}};
  for_each_table([&](const auto& layout, auto member) {
    for (auto& row : tables.*member) renumber_modules(layout, row, modules);
  });
  CHECK(tables.values[0].at.module == 2);
  CHECK(tables.values[0].context.module == 0);
  CHECK(tables.values[1].context.module == 2);
  CHECK(tables.latency_pages[0].page.at.module == 0);
  CHECK(!tables.latency_pages[0].load);
  CHECK(tables.latency_pages[1].page.at.module == 2);
  CHECK(tables.latency_pages[1].load == CodeRef{0, 8});
  CHECK(tables.paths[0].from.module == 0);
  CHECK(tables.paths[0].blocks == std::vector<CodeRef>{{0, 5}, {1, 6}});
  CHECK(!row_without_module(kPathLayout, tables.paths, 2));
  CHECK(row_without_module(kPathLayout, tables.paths, 1) == 0);
}

}  // namespace
}  // namespace shadowprof

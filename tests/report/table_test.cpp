#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "report/facts.h"
#include "report/report.h"

namespace smelt::report {
namespace {

using nlohmann::json;

Table of(std::vector<Cell> row, std::vector<Column> columns) {
  return {.key = "t", .columns = std::move(columns), .rows = {std::move(row)}};
}
json row_of(std::vector<Cell> row, std::vector<Column> columns) {
  return json::parse(table_json({of(std::move(row), std::move(columns))}))["t"][0];
}

const std::vector<std::string> seven{"a", "b", "c", "d", "e", "f", "g"};

TEST(Clocks, are_told_as_a_range_with_what_held_them_down) {
  EXPECT_EQ(clocks_text({}), "");
  EXPECT_EQ(clocks_text({.lowest_mhz = 1980, .highest_mhz = 1980, .most_mhz = 1980}), "1980 of 1980 MHz");
  EXPECT_EQ(clocks_text({.lowest_mhz = 1410, .highest_mhz = 1755}), "1410 to 1755 MHz");
  EXPECT_EQ(clocks_text({1410, 1980, 1980, {"power cap", "heat"}}), "1410 to 1980 of 1980 MHz, held down by power cap, heat");
}

TEST(Cell, a_list_is_whole_in_json_and_cut_for_a_reader) {
  EXPECT_EQ(row_of({seven}, {{"nodes", "nodes"}})["nodes"], json(seven));
  EXPECT_EQ(row_of({std::vector<std::string>{}}, {{"nodes", "nodes"}})["nodes"], json::array());
  EXPECT_NE(print(of({seven}, {{"nodes", "nodes"}})).find("a, b, c, d, e, f, … (7)"), std::string::npos);
  EXPECT_EQ(Cell(seven).full, "a, b, c, d, e, f, g");
  EXPECT_EQ(Cell(std::vector<std::string>{"a"}).full, "");
}

TEST(Cell, a_shape_is_an_array_of_numbers_and_symbols) {
  EXPECT_EQ(row_of({shape_cell(Shape{1, 8})}, {{"shape", "shape"}})["shape"], json({1, 8}));
  EXPECT_EQ(row_of({shape_cell(Shape{})}, {{"shape", "shape"}})["shape"], json::array());
  const Cell dynamic = shape_cell(SymShape{Dim("batch"), Dim(3), Dim()});
  EXPECT_EQ(dynamic.text, "[batch, 3, ?]");
  EXPECT_EQ(row_of({dynamic}, {{"shape", "shape"}})["shape"], json({"batch", 3, nullptr}));
}

TEST(Cell, whole_numbers_flags_and_values_keep_their_types) {
  const std::vector<Column> columns{{"what", ""}, {"value", ""}};
  EXPECT_TRUE(row_of({"nodes", int64_t{12345678}}, columns)["value"].is_number_integer());
  EXPECT_NE(print(of({"nodes", int64_t{12345678}}, columns)).find("12345678"), std::string::npos);
  EXPECT_EQ(row_of({"pass", false}, columns)["value"], json(false));
  EXPECT_NE(print(of({"pass", false}, columns)).find("no"), std::string::npos);
  const json memory = row_of({"memory", Cell(25276514304.0, Unit::bytes)}, columns);
  EXPECT_TRUE(memory["value"].is_number_integer());
  EXPECT_NE(print(of({"memory", Cell(25276514304.0, Unit::bytes)}, columns)).find("23.5 GiB"), std::string::npos);
}

TEST(Cell, a_tensor_value_that_is_no_number_shows_and_is_null_in_json) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(format(Cell(nan), Unit::value), "nan");
  EXPECT_EQ(format(Cell(-23.02149), Unit::value), "-23.021");
  EXPECT_EQ(row_of({nan}, {{"min", "min", Unit::value}})["min"], json(nullptr));
}

TEST(Print, cuts_a_path_in_front_behind_its_indentation_and_a_sentence_at_its_end) {
  const std::string path = "    /backbone/features.0/features.0.13/block", sentence = "a reader that is not a constant at all";
  const std::string text = print(of({path, sentence}, {{"path", "path"}, {"why", "why"}}), 50);
  EXPECT_NE(text.find("\n    …"), std::string::npos) << text;
  EXPECT_NE(text.find(".0.13/block  a reader"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("…\n")) << text;
}

TEST(Print, indents_modules_which_json_names_as_they_are) {
  const std::vector<Column> columns{{"path", "module"}};
  EXPECT_NE(print(of({module_cell("layer1.0", 2)}, columns)).find("\n    layer1.0\n"), std::string::npos);
  EXPECT_EQ(row_of({module_cell("layer1.0", 2)}, columns)["path"], "layer1.0");
  EXPECT_EQ(row_of({module_cell("", 0)}, columns)["path"], "(model)");
}

TEST(Print, leaves_out_a_column_for_programs) {
  const std::vector<Column> columns{{"reason", "reason"}, {"code", "code", Unit::text, true}};
  EXPECT_EQ(row_of({"elements of f64", "wrong_type"}, columns)["code"], "wrong_type");
  EXPECT_EQ(print(of({"elements of f64", "wrong_type"}, columns)).find("code"), std::string::npos);
}

TEST(Ledger, names_every_node_and_every_reason) {
  const fuse::Entry match{.rewrite = "attention", .nodes = seven, .matched = true};
  Explained e{.ledger = {match}};
  for (const std::string& reason : seven) e.ledger.push_back({.rewrite = "attention", .reason = reason});
  const json tables = json::parse(table_json({ledger_table(e), ledger_summary(e)}));
  EXPECT_EQ(tables["ledger"][0]["nodes"], json(seven));
  EXPECT_EQ(tables["rewrites"][0]["reasons"].size(), seven.size());
}

TEST(Report, gives_the_machine_in_numbers) {
  Report r;
  r.machine = machine_facts(1);
  const json machine = json::parse(report::json(r))["machine"];
  EXPECT_EQ(machine["threads"], 1);
  EXPECT_GE(machine["cores"], 1);
  EXPECT_GT(machine["memory_bytes"], 1 << 20);
}

}  // namespace
}  // namespace smelt::report

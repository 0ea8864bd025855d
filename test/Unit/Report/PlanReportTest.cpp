//===- PlanReportTest.cpp - Tests of plan reports ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Report/PlanReport.h"

#include "llvm/ADT/StringMap.h"
#include "gtest/gtest.h"

using namespace kiln;
using llvm::StringRef;
using llvm::json::Array;
using llvm::json::Object;

namespace {

using Names = std::vector<std::string>;

Object stage(int64_t index, StringRef layer, const Names &keeps,
             const Names &repeats, int64_t runs = 1) {
  return Object{{"stage", index},       {"layer", layer.str()},
                {"forward_runs", runs}, {"keeps_input", true},
                {"keeps", keeps},       {"repeats", repeats}};
}

/// A plan with three commands, two states of 1 KiB each, two activations and a
/// gradient. During the second command, both activations are live and take
/// 3 KiB.
Object smallPlan() {
  return *llvm::json::parse(R"json({
    "predicted_peak_bytes": 5120, "device_arena_bytes": 5120,
    "state_bytes": 2048, "budget_bytes": 6144, "unplanned_peak_bytes": 10240,
    "predicted_step_ms": 11.0, "lower_bound_ms": 10.0,
    "unplanned_step_ms": 8.0, "microbatches": 1, "program": "train",
    "programs": {"train": {"height": 5120, "max_live_bytes": 3072,
                           "peak_command": 1, "commands": 3}},
    "by_class": {"parameters": 1024, "optimizer": 1024, "activations": 3072,
                 "gradients": 0},
    "declared": {"parameters": 1024, "optimizer": 1024, "activations": 3072,
                 "gradients": 1000},
    "command_names": ["embed", "h.0.<b>\"&'", "apply"],
    "buffers": [
      {"name": "w", "class": "parameter", "bytes": 1024, "offset": 0,
       "first": 0, "last": 2, "why": "state"},
      {"name": "w.m", "class": "optimizer", "bytes": 1024, "offset": 1024,
       "first": 0, "last": 2, "why": "state"},
      {"name": "</script><b>x", "class": "activation", "bytes": 1024,
       "offset": 2048, "first": 0, "last": 1, "why": "result"},
      {"name": "y", "class": "activation", "bytes": 2048, "offset": 3072,
       "first": 1, "last": 1, "why": "result"},
      {"name": "g", "class": "gradient", "bytes": 1000, "offset": 2048,
       "first": 2, "last": 2, "why": "result"}]
  })json")
              ->getAsObject();
}

/// The plan of smallPlan() with two additional buffers: a state of 512 bytes on
/// the host, and a value of 1000 bytes that is on the host during the second
/// command.
Object offloadedPlan() {
  Object plan = smallPlan();
  plan["host_arena_bytes"] = 1600;
  plan["host_state_bytes"] = 512;
  plan["host_budget_bytes"] = 4096;
  plan["copied_out_bytes_per_step"] = 2000;
  plan["copied_in_bytes_per_step"] = 1000;
  plan["link"] =
      Object{{"out_bytes_per_second", 1e6}, {"in_bytes_per_second", 5e5}};
  auto add = [&](StringRef name, StringRef slotClass, int64_t bytes,
                 int64_t offset, int64_t first, int64_t last) {
    plan.getArray("buffers")->push_back(Object{{"name", name.str()},
                                               {"class", slotClass.str()},
                                               {"bytes", bytes},
                                               {"offset", offset},
                                               {"first", first},
                                               {"last", last},
                                               {"why", "state"},
                                               {"arena", "host"}});
  };
  add("host.v", "optimizer", 512, 0, 0, 2);
  add("host.copy", "activation", 1000, 512, 1, 1);
  Object choice = stage(0, "h.0", {"h.0.attn"}, {});
  choice["offloads"] = Names{"h.0.attn"};
  choice["offloaded_bytes"] = 1000;
  choice["repeated_bytes"] = 24;
  choice["repeated_ms"] = 0.5;
  plan["choices"] = Array{std::move(choice)};
  return plan;
}

TEST(PlanSummary, SaysWhatThePlanSays) {
  std::string text = planSummary(smallPlan());
  for (const char *line :
       {"arena: 5.00 KiB (5,120 bytes), budget 6.00 KiB (6,144 bytes)\n",
        "step: 11.00 ms predicted, 10.00 % above the estimated lower bound of "
        "10.00 ms\n",
        "against keeping everything (8.00 ms, 10.00 KiB): 37.5 % more time, "
        "50.0 % less memory\n",
        "  activations           3.00 KiB      3.00 KiB\n",
        "  gradients                  0 B        1000 B\n",
        "  arena                 5.00 KiB\n",
        "peak: command 1 of 3 in @train, 'h.0.<b>\"&'', in addition to 2.00 "
        "KiB"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  // The larger buffer is listed first. States are only listed in total, and the
  // gradient is not live at the peak.
  EXPECT_LT(text.find("  y "), text.find("  </script>"));
  EXPECT_EQ(text.find("  g "), std::string::npos);
  EXPECT_EQ(text.find("  w.m "), std::string::npos);
}

TEST(PlanSummary, JoinsLayersThatAreTreatedAlike) {
  Object plan = smallPlan();
  Array choices;
  const Names none;
  choices.push_back(stage(0, "", none, none, 2));
  for (int layer = 0; layer < 3; ++layer) {
    std::string name = "h." + std::to_string(layer);
    choices.push_back(stage(1 + 2 * layer, name, Names{name + ".attn"},
                            Names{name + ".attn"}));
    choices.push_back(
        stage(2 + 2 * layer, name, none, Names{name + ".mlp.c_fc"}));
  }
  choices.push_back(stage(7, "h.3", Names{"h.3.attn"}, none));
  choices.push_back(stage(8, "h.4", none, Names{"h.4.attn"}));
  plan["choices"] = std::move(choices);
  std::string text = planSummary(plan);
  for (const char *line :
       {"choices: keeping everything needs 10.00 KiB, which is 4.00 KiB "
        "above the budget\n",
        "  stage 0         nothing to keep; forward runs 2 times\n",
        "  h.0 to h.2      repeat part of attn, mlp.c_fc; keep the rest\n",
        "  h.3             keep everything\n",
        "  h.4             repeat everything\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
}

TEST(PlanSummary, TellsTheHostFromTheDevice) {
  std::string text = planSummary(offloadedPlan());
  for (const char *line :
       {"\nhost: 1.56 KiB (1,600 bytes), budget 4.00 KiB (4,096 bytes)\n",
        "\ncopies in a step: 1.95 KiB to the host (2.00 ms at 1.00 MB/s), "
        "1000 B back (2.00 ms at 500.00 KB/s)\n",
        "  class              at the peak      in total     on the host\n",
        "  parameters            1.00 KiB      1.00 KiB             0 B\n",
        "  optimizer             1.00 KiB      1.00 KiB           512 B\n",
        "  activations           3.00 KiB      3.00 KiB          1000 B\n",
        "  unused                     0 B                          88 B\n",
        "  arena                 5.00 KiB                      1.56 KiB\n",
        "  h.0             keep everything; on the host: attn\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  EXPECT_EQ(text.find("host.copy"), std::string::npos) << text;
}

TEST(PlanSummary, SaysNothingOfAHostWithoutAnything) {
  for (const std::string &text :
       {planSummary(smallPlan()),
        planPage(smallPlan(), {"m", "1.0", "kilnc m"})}) {
    EXPECT_EQ(text.find("host"), std::string::npos) << text;
    EXPECT_EQ(text.find("copies"), std::string::npos) << text;
  }
}

TEST(PlanSummary, ShowsWhatThereIs) {
  for (const std::string &text : {planSummary(Object()), planPage(Object(), {}),
                                  planSnapshot(Object())}) {
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(text.find("nan"), std::string::npos) << text;
    EXPECT_EQ(text.find("inf"), std::string::npos) << text;
  }
}

TEST(PlanPage, EscapesNamesAndClosesWhatItOpens) {
  std::string page =
      planPage(smallPlan(), {"<model> & \"co\"", "1.0", "kilnc '<x>'"});
  StringRef text = page;
  EXPECT_TRUE(text.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(text.ends_with("</html>\n"));
  for (const char *raw : {"<model>", "<x>", "</script><b>", "<b>x", "<b>\"&",
                          "NaN", "nan", "http:", "https:", "src=", "@import"})
    EXPECT_FALSE(text.contains(raw)) << raw;
  EXPECT_TRUE(text.contains("&lt;model&gt; &amp; &quot;co&quot;"));
  EXPECT_TRUE(text.contains("&lt;/script&gt;&lt;b&gt;x"));
  EXPECT_TRUE(text.contains("\\u003cb>"));
  for (const char *element : {"html", "head", "body", "svg", "table", "tr",
                              "td", "div", "p", "script", "style", "title"}) {
    std::string name = element;
    size_t opened = text.count("<" + name + ">") + text.count("<" + name + " ");
    EXPECT_EQ(opened, text.count("</" + name + ">")) << name;
  }
}

TEST(PlanPage, HasTheFigures) {
  std::string page = planPage(smallPlan(), {"m", "1.0", "kilnc m"});
  StringRef text = page;
  for (const char *figure :
       {"arena: 5,120 bytes", "1.00 KiB left", "11.00 ms",
        "<b>+37.5 %</b><span>time; keeping everything: 8.00 ms<",
        "<b>-50.0 %</b><span>memory; keeping everything: 10.00 KiB<",
        "10.00 % above the estimated lower bound of 10.00 ms",
        "[1,\"h.0.\\u003cb>\\\"&'\",1024,1024,0,0,0,3072,0,0,0,0,0]",
        "[2,\"apply\",1024,1024,0,0,1024,0,0,0,0,0,0]"})
    EXPECT_TRUE(text.contains(figure)) << figure;
}

TEST(PlanPage, HasBothArenas) {
  std::string page = planPage(offloadedPlan(), {"m", "1.0", "kilnc m"});
  StringRef text = page;
  for (const char *figure :
       {"<b>1.56 KiB</b><span>on the host: 1,600 bytes<",
        "<b>1.95 KiB</b><span>copied to the host in a step<",
        "<b>1000 B</b><span>copied back in a step<",
        "<h2>Host memory over a step</h2>",
        "aria-label=\"bytes on the host over the commands of a step\"",
        "arena 1.56 KiB</text>", "budget 4.00 KiB</text>",
        "A step copies 1.95 KiB to the host (2.00 ms at 1.00 MB/s)",
        "<th>on the host</th>",
        "<td>attn</td><td class=\"n\">1.00 KiB</td><td class=\"n\">0.50 ms<",
        // This row of the device timeline is the same as without a host arena.
        "[1,\"h.0.\\u003cb>\\\"&'\",1024,1024,0,0,0,3072,0,0,0,0,0]"})
    EXPECT_TRUE(text.contains(figure)) << figure;
  EXPECT_EQ(text.count("<svg "), 3u);
  EXPECT_EQ(text.count("id=\"cursor\""), 1u);
  EXPECT_FALSE(text.contains("host.copy"));
}

TEST(PlanPage, KeepsPeaksOfLongPrograms) {
  Object plan = smallPlan();
  (*plan.getObject("programs")->getObject("train"))["commands"] = 5000;
  std::string page = planPage(plan, {"m", "1.0", "kilnc m"});
  EXPECT_TRUE(StringRef(page).contains("1024,1024,0,0,0,3072,0,0,0,0,0]"));
  EXPECT_TRUE(StringRef(page).contains("the maximum of about every 7"));
}

TEST(PlanSnapshot, IsTheDeviceAlone) {
  Object offloaded = offloadedPlan();
  EXPECT_EQ(planSnapshot(offloaded), planSnapshot(smallPlan()));
}

TEST(PlanSnapshot, IsThePlanAsAllocations) {
  auto parsed = llvm::json::parse(planSnapshot(smallPlan()));
  ASSERT_TRUE(static_cast<bool>(parsed));
  const Object &segment =
      *(*parsed->getAsObject()->getArray("segments"))[0].getAsObject();
  EXPECT_EQ(segment.getInteger("total_size"), 5120);
  EXPECT_EQ(segment.getInteger("active_size"), 2048);
  int64_t tiled = 0;
  for (const llvm::json::Value &block : *segment.getArray("blocks"))
    tiled += *block.getAsObject()->getInteger("size");
  EXPECT_EQ(tiled, 5120);

  int64_t live = 0, most = 0;
  llvm::StringMap<int> actions;
  const Array &traces = *parsed->getAsObject()->getArray("device_traces");
  for (const llvm::json::Value &value : *traces[0].getAsArray()) {
    const Object &event = *value.getAsObject();
    StringRef action = *event.getString("action");
    ++actions[action];
    if (action == "alloc")
      live += *event.getInteger("size");
    if (action == "free_completed")
      live -= *event.getInteger("size");
    most = std::max(most, live);
  }
  EXPECT_EQ(most, 5120);
  EXPECT_EQ(live, 2048);
  EXPECT_EQ(actions["alloc"], 5);
  EXPECT_EQ(actions["free_requested"], 3);
  EXPECT_EQ(actions["free_completed"], 3);
  EXPECT_EQ(actions["segment_alloc"], 1);
}

} // namespace

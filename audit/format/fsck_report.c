#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/fsck.h"
#include "audit/format/heads.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

uint64_t fsck_report_count(const struct fsck_report *report)
{
    uint64_t count = 0;

    for (size_t i = 0; i < FSCK_KIND_COUNT; i++) count += report->findings[i];
    return count;
}

static struct result write_findings(const struct fsck_report *report, struct buffer *text, struct error *err)
{
    const uint64_t count = fsck_report_count(report);

    if (count == 0) return SUCCESS;
    TRY(buffer_format(text, err, "Found: %" PRIu64 "; the first, by number:\n", count));
    for (size_t i = 0; i < report->shown; i++)
        TRY(buffer_format(text, err, "  %" PRIu64 "  %s: %s\n", report->first[i].number, fsck_kind_name(report->first[i].kind),
                          report->first[i].what));
    TRY(buffer_add_text(text, "In all:\n", err));
    for (size_t i = 0; i < FSCK_KIND_COUNT; i++)
        if (report->findings[i] > 0)
            TRY(buffer_format(text, err, "  %" PRIu64 "  %s\n", report->findings[i], fsck_kind_name((enum fsck_kind)i)));
    return buffer_add_u8(text, '\n', err);
}

static struct result write_unsigned(const struct fsck_report *report, struct buffer *text, struct error *err)
{
    const uint64_t left = report->size > report->signed_size ? report->size - report->signed_size : 0;

    if (left == 0) return SUCCESS;
    return buffer_format(text, err, "  not signed  the last %" PRIu64 " entries: no checkpoint of the dump covers them\n", left);
}

static struct result write_released(const struct fsck_report *report, struct buffer *text, struct error *err)
{
    if (report->released == 0) return SUCCESS;
    return buffer_format(
        text, err,
        "  not read    %" PRIu64 " entries from %" PRIu64 " to %" PRIu64
        ": archived, and their bytes are not in the dump. The signed tree has their\n"
        "              stored hashes; their times, actions, outcomes, facts, sealed parts and index rows were not compared\n",
        report->released, report->released_first, report->released_last);
}

/* The last word of the detail of log.succeed (audit/format/succession.h). */
static bool one_officer(const struct fsck_report *report)
{
    const char *last = strrchr(report->succeeds, ' ');

    return last != NULL && strcmp(last, " 1") == 0;
}

static struct result write_later(const struct fsck_report *report, struct buffer *text, struct error *err)
{
    if (report->untold > 0)
        TRY(buffer_format(text, err,
                          "  untold      %" PRIu64
                          " rows about persons of SCIM are from an earlier version, and no event tells them yet: groups give no\n"
                          "              role by them. If this number rises, somebody writes such rows\n",
                          report->untold));
    if (report->unreadable == 0) return SUCCESS;
    return buffer_format(
        text, err,
        "  unreadable  %" PRIu64
        " entries of a later version: their columns, keys and rows were not compared. Use a newer sijil-verify\n",
        report->unreadable);
}

static struct result write_counts(const struct fsck_report *report, struct buffer *text, struct error *err)
{
    char when[CLOCK_TEXT_SIZE];

    clock_format(report->made_ms, when);
    TRY(buffer_format(text, err, "  log         %s, %" PRIu64 " entries, dumped at %s\n", report->origin, report->size, when));
    TRY(buffer_format(text, err,
                      "  signed      %" PRIu64 " entries; %" PRIu64 " stored checkpoints, %" PRIu64 " of them not by this key\n",
                      report->signed_size, report->checkpoints, report->foreign));
    TRY(write_unsigned(report, text, err));
    TRY(write_released(report, text, err));
    TRY(buffer_format(text, err, "  keys        %" PRIu64 "; index of searches: %" PRIu64 " entries\n", report->keys,
                      report->indexed));
    TRY(buffer_format(text, err,
                      "  rows        %" PRIu64 " sealed parts (%" PRIu64 " erased), %" PRIu64 " facts, %" PRIu64 " tags, %" PRIu64
                      " bindings, %" PRIu64 " persons (%" PRIu64 " subjects of tokens) and %" PRIu64 " groups of SCIM\n",
                      report->payloads, report->erased, report->facts, report->tags, report->bindings, report->persons,
                      report->links, report->groups));
    TRY(buffer_format(text, err,
                      "  unwraps     %" PRIu64 " keys by the last report of sijil-keyd, and %" PRIu64 " reads of content\n",
                      report->unwraps, report->reads));
    if (report->successions > 0)
        TRY(buffer_format(text, err,
                          "  succeeds    another log, which ended: entry %" PRIu64
                          " says so (%s), and the entries before it are of that log%s\n",
                          report->succeeds_at, report->succeeds,
                          one_officer(report) ? ". ONE officer signed that, no second person" : ""));
    return write_later(report, text, err);
}

static struct result write_json_succession(const struct fsck_report *report, struct buffer *text, struct error *err)
{
    if (report->successions == 0) return SUCCESS;
    TRY(buffer_format(text, err, ",\"succeeds_at\":%" PRIu64 ",\"succeeds\":", report->succeeds_at));
    TRY(json_write_string(text, bytes_of_text(report->succeeds), err));
    return buffer_format(text, err, ",\"one_officer\":%s", one_officer(report) ? "true" : "false");
}

struct result fsck_report_text(const struct fsck_report *report, struct buffer *text, struct error *err)
{
    TRY(write_findings(report, text, err));
    if (fsck_report_count(report) == 0 && report->unreadable > 0)
        TRY(buffer_format(text, err,
                          "Sound as far as this version can read: %" PRIu64 " of %" PRIu64
                          " entries are of a later one (\"unreadable\").\n\n",
                          report->unreadable, report->size));
    else if (fsck_report_count(report) == 0 && report->released == 0)
        TRY(buffer_format(text, err, "Sound: %" PRIu64 " entries, and all rows follow from them.\n\n", report->size));
    else if (fsck_report_count(report) == 0)
        TRY(buffer_format(text, err,
                          "Sound as far as the dump goes: of %" PRIu64 " entries %" PRIu64
                          " are there with their hash alone (\"not read\").\n\n",
                          report->size, report->released));
    TRY(write_counts(report, text, err));
    return buffer_add_text(
        text,
        "\nNot checked: the text of sealed parts, and the keys of the index of addresses (only sijil-keyd can open them); how long a "
        "binding lasts,\nand which subject it is for; secrets of robots, and who is behind them; groups by tokens; keys of issuers;\n"
        "whether an event tells the truth.\n",
        err);
}

static struct result write_json_finding(const struct fsck_finding *finding, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, "{\"kind\":\"%s\",\"number\":%" PRIu64 ",\"what\":", fsck_kind_name(finding->kind),
                      finding->number));
    TRY(json_write_string(text, bytes_of_text(finding->what), err));
    return buffer_add_u8(text, '}', err);
}

static struct result write_json_kinds(const struct fsck_report *report, struct buffer *text, struct error *err)
{
    bool is_first = true;

    TRY(buffer_add_text(text, "\"found\":{", err));
    for (size_t i = 0; i < FSCK_KIND_COUNT; i++) {
        if (report->findings[i] == 0) continue;
        TRY(buffer_format(text, err, "%s\"%s\":%" PRIu64, is_first ? "" : ",", fsck_kind_name((enum fsck_kind)i),
                          report->findings[i]));
        is_first = false;
    }
    return buffer_add_u8(text, '}', err);
}

static struct result write_json_hash(const char *name, const struct merkle_hash *hash, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, ",\"%s\":\"", name));
    TRY(text_base64(text, BASE64_STANDARD, (struct bytes){hash->bytes, sizeof hash->bytes}, err));
    return buffer_add_u8(text, '"', err);
}

struct result fsck_report_json(const struct fsck_report *report, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, "{\"verified\":%s,\"origin\":", fsck_report_count(report) == 0 ? "true" : "false"));
    TRY(json_write_string(text, bytes_of_text(report->origin), err));
    TRY(buffer_format(text, err, ",\"size\":%" PRIu64 ",\"signed\":%" PRIu64, report->size, report->signed_size));
    TRY(write_json_hash("root", &report->root, text, err));
    TRY(buffer_format(text, err, ",\"keys\":%" PRIu64, report->keys));
    TRY(write_json_hash("heads", &report->heads, text, err));
    TRY(buffer_format(text, err,
                      ",\"checkpoints\":%" PRIu64 ",\"foreign\":%" PRIu64 ",\"payloads\":%" PRIu64 ",\"erased\":%" PRIu64
                      ",\"facts\":%" PRIu64 ",\"tags\":%" PRIu64 ",\"bindings\":%" PRIu64 ",\"persons\":%" PRIu64
                      ",\"groups\":%" PRIu64 ",\"links\":%" PRIu64 ",\"untold\":%" PRIu64 ",\"indexed\":%" PRIu64
                      ",\"unwraps\":%" PRIu64 ",\"reads\":%" PRIu64 ",\"unreadable\":%" PRIu64 ",\"released\":%" PRIu64
                      ",\"successions\":%" PRIu64 ",\"passes\":%u,",
                      report->checkpoints, report->foreign, report->payloads, report->erased, report->facts, report->tags,
                      report->bindings, report->persons, report->groups, report->links, report->untold, report->indexed,
                      report->unwraps, report->reads, report->unreadable, report->released, report->successions, report->passes));
    TRY(write_json_kinds(report, text, err));
    TRY(write_json_succession(report, text, err));
    TRY(buffer_add_text(text, ",\"first\":[", err));
    for (size_t i = 0; i < report->shown; i++) {
        if (i > 0) TRY(buffer_add_u8(text, ',', err));
        TRY(write_json_finding(&report->first[i], text, err));
    }
    return buffer_add_text(text, "]}\n", err);
}

static bool heads_follow(const struct fsck_report *report)
{
    return report->findings[FSCK_STATE] + report->findings[FSCK_ENTRY] + report->findings[FSCK_CHECKPOINT] +
               report->findings[FSCK_KEY_INDEX] ==
           0;
}

/* docs/formats/audit-dump.md, "Heads of keys". */
struct result fsck_heads_text(const struct fsck_report *report, struct buffer *text, struct error *err)
{
    if (report->unreadable > 0)
        return failure(err, ERROR_DENIED,
                       "%" PRIu64 " entries can't be read by this version, so it does not know their keys: use a newer one",
                       report->unreadable);
    if (report->released > 0)
        return failure(
            err, ERROR_DENIED,
            "%" PRIu64
            " entries are in the dump with their hash alone, because their bytes were archived and released, so their keys are "
            "not known: a dump from before the release has them",
            report->released);
    if (!heads_follow(report))
        return failure(err, ERROR_DENIED, "entry %" PRIu64 ": %.200s", report->shown == 0 ? 0 : report->first[0].number,
                       report->shown == 0 ? "" : report->first[0].what);
    struct heads heads = {
        .checkpoint = {.size = report->size, .root = report->root}, .keys = report->keys, .root = report->heads};
    (void)snprintf(heads.checkpoint.origin, sizeof heads.checkpoint.origin, "%s", report->origin);
    return heads_write(&heads, text, err);
}

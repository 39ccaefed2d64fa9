/* Compares what a store says about itself with the region's record. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/terminal_text.h"
#include "registry/region_keys_priv.h"
#include "registry/region_scan_priv.h"

__attribute__((format(printf, 4, 5))) static void add(struct region_report *report, bool is_grave, const char *about,
                                                      const char *format, ...)
{
    va_list arguments;

    if (report->count == REGION_FINDINGS_MAX) return;
    struct region_finding *finding = &report->findings[report->count++];
    finding->is_grave = is_grave;
    finding->about = about;
    va_start(arguments, format);
    (void)vsnprintf(finding->what, sizeof finding->what, format, arguments);
    va_end(arguments);
    terminal_sanitize(finding->what); /* a text of the record may have been cut within a character, which no database takes */
}

/* What the record states must be so. */
static void demand(struct region_report *report, const char *about, const char *stated, const char *found)
{
    if (stated == NULL || strcmp(stated, found) == 0) return;
    add(report, true, about, "the record says %.100s, and it is %.100s", stated[0] == '\0' ? "nothing" : stated,
        found[0] == '\0' ? "nothing" : found);
}

static void compare_marks(const struct region_record *record, const char *known, const char *found, struct region_report *report)
{
    const char *wanted = record->mark != NULL ? record->mark : known;

    if (record->mark != NULL && known[0] != '\0' && strcmp(record->mark, known) != 0)
        add(report, true, "mark", "the record names the mark %.32s, and the region was begun with %.32s", record->mark, known);
    else if (found[0] == '\0' && known[0] != '\0')
        add(report, true, "mark", "the store has lost its mark %.32s: it is another store, or was emptied", known);
    else if (found[0] != '\0' && wanted[0] != '\0' && strcmp(found, wanted) != 0)
        add(report, true, "mark", "the store has the mark %.32s, and the region's is %.32s: it is another store", found, wanted);
}

/* Without a signed record, rules of the store are told, and nothing follows: a registry may have had them for years. */
static void compare_rules(const struct region_record *record, const struct driver_survey *survey, struct region_report *report)
{
    const struct {
        const struct driver_rules *rules;
        const char *about, *what;
        bool is_grave;
    } all[] = {{&survey->copies, "replication", "the store copies objects", record->is_signed},
               {&survey->expiry, "lifecycle", "the store has a rule of its own:", record->is_signed},
               {&survey->versions, "versioning", "removed objects stay in the store:", false}};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].rules->told == RULES_SOME)
            add(report, all[i].is_grave, all[i].about, "%s %.120s", all[i].what, all[i].rules->what);
        if (all[i].rules->told == RULES_NOT_TOLD)
            add(report, false, all[i].about, "the store does not tell its rules (%.100s)", all[i].rules->what);
    }
}

void region_compare(const struct region_record *record, const struct region_place *place, const char *known_mark,
                    const struct driver_survey *survey, struct region_report *report)
{
    const bool is_bucket = strcmp(place->driver, "s3") == 0;

    if (!record->is_signed) add(report, false, "record", "the policy set does not say which store this is");
    demand(report, "driver", record->driver, place->driver);
    if (is_bucket) {
        demand(report, "endpoint", record->endpoint, place->endpoint);
        demand(report, "bucket", record->bucket, place->bucket);
        demand(report, "prefix", record->prefix, place->prefix);
        demand(report, "location", record->bucket_location != NULL ? record->bucket_location : place->bucket_location,
               survey->place);
    } else demand(report, "file system", record->file_system, survey->place);
    compare_marks(record, known_mark, survey->mark, report);
    compare_rules(record, survey, report);
}

void region_compare_keys(const struct region_keys *keys, struct region_report *report)
{
    if (keys->problem[0] != '\0') add(report, keys->is_grave, "keyd", "%.200s", keys->problem);
}

bool region_report_is_grave(const struct region_report *report)
{
    bool is_grave = false;

    for (size_t i = 0; i < report->count; i++) is_grave = is_grave || report->findings[i].is_grave;
    return is_grave;
}

void region_report_text(const struct region_report *report, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < report->count && at + 1 < size; i++) {
        const struct region_finding *finding = &report->findings[i];
        if (!finding->is_grave) continue;
        const int written = snprintf(text + at, size - at, "%s%s: %s", at > 0 ? "; " : "", finding->about, finding->what);
        at = written < 0 || (size_t)written >= size - at ? size - 1 : at + (size_t)written;
    }
    terminal_sanitize(text);
}

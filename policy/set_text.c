#include "policy/set_text.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/terminal_text.h"
#include "policy/effects_priv.h"
#include "policy/sentence_priv.h"

#define COLUMNS  80
#define LINE_MAX SET_TEXT_MAX /* one list of 256 long texts */

/* ---- paragraphs ---- */

static size_t columns_of(const char *text, size_t length)
{
    size_t columns = 0;

    for (size_t i = 0; i < length; i++) columns += ((uint8_t)text[i] & 0xc0) != 0x80;
    return columns;
}

struct result set_text_paragraph(const char *head, unsigned indent, const char *text, struct buffer *into, struct error *err)
{
    size_t column = columns_of(head, strlen(head));
    bool is_first = true;

    TRY(buffer_add_text(into, head, err));
    for (text += strspn(text, " \n"); *text != '\0'; text += strspn(text, " \n")) {
        const size_t length = strcspn(text, " \n"), columns = columns_of(text, length);
        if (!is_first && column + 1 + columns > COLUMNS) {
            TRY(buffer_format(into, err, "\n%*s", (int)indent, ""));
            column = indent;
        } else if (!is_first) {
            TRY(buffer_add_u8(into, ' ', err));
            column++;
        }
        const size_t start = into->length;
        TRY(buffer_add(into, text, length, err));
        terminal_sanitize((char *)into->data + start);
        column += columns;
        text += length;
        is_first = false;
    }
    return buffer_add_u8(into, '\n', err);
}

/* ---- policies ---- */

static void moment(int64_t us, char text_out[CLOCK_TEXT_SIZE])
{
    clock_format(us / 1000, text_out);
    text_out[16] = '\0'; /* minutes are enough */
    text_out[10] = ' ';
}

static struct result add_texts(const json_t *array, struct buffer *line, struct error *err)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        TRY(buffer_format(line, err, "%s%s", i > 0 ? ", " : "", json_string_value(json_array_get(array, i))));
    return SUCCESS;
}

static struct result tell_head(const struct policy_document *policy, const struct set_reading *reading, struct buffer *text,
                               struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX);
    const json_t *metadata = json_object_get(policy->json, "metadata");
    const char *title = json_text_of(metadata, "title"), *notice = json_text_of(metadata, "disclaimer");
    const bool is_future = policy->effective_from_us > reading->now_ms * 1000;
    const bool is_late = policy->review_by_day < reading->now_ms / 86400000;
    char since[CLOCK_TEXT_SIZE];

    TRY(add_texts(json_object_get(metadata, "scope"), &line, err));
    TRY(set_text_paragraph("", 2, buffer_text(&line), text, err));
    buffer_clear(&line);
    moment(policy->effective_from_us, since);
    TRY(buffer_format(&line, err, "%s, %s since %s UTC, to be reviewed by %s%s", policy->name,
                      is_future ? "not in force yet:" : "in force", since, policy->review_by, is_late ? " (LATE)" : ""));
    TRY(set_text_paragraph("  ", 2, buffer_text(&line), text, err));
    if (title != NULL) TRY(set_text_paragraph("  ", 2, title, text, err));
    return notice == NULL ? SUCCESS : set_text_paragraph("  ", 2, notice, text, err);
}

/* What it says of everything in its scope, and of what is elsewhere. */
static struct result tell_reach(const struct policy_document *policy, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX);

    if (policy->has_floor) {
        TRY(buffer_add_text(&line, "Everything here is labelled: ", err));
        TRY(sentence_floor(&policy->floor, &line, err));
        TRY(set_text_paragraph("  ", 2, buffer_text(&line), text, err));
        buffer_clear(&line);
    }
    if (policy->has_applies_to) {
        TRY(buffer_add_text(&line, "Elsewhere it restricts: ", err));
        TRY(sentence_data(&policy->applies_to, &line, err));
        TRY(set_text_paragraph("  ", 2, buffer_text(&line), text, err));
    }
    return set_text_paragraph(
        "  ", 2, policy->is_closed ? "What no rule here permits is denied." : "It only restricts: another policy has to permit.",
        text, err);
}

/* The data of a rule, as the heading under which it is told. */
static struct result heading(const struct rule *rule, struct buffer *line, struct error *err)
{
    buffer_clear(line);
    return sentence_data(&rule->when, line, err);
}

static struct result tell_rule(const struct rule *rule, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX);

    TRY(sentence_rule(rule, &line, err));
    if (!rule_is_asked(rule)) TRY(buffer_add_text(&line, " (nothing asks this: it decides nothing)", err));
    TRY(buffer_format(&line, err, " [%s]", rule->id));
    return set_text_paragraph("    - ", 6, buffer_text(&line), text, err);
}

/* All rules about the same data as rule number `first`; nothing if an earlier rule has told them. */
static struct result tell_class(const struct policy_document *policy, size_t first, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER of_first = BUFFER(LINE_MAX), of_each = BUFFER(LINE_MAX);

    TRY(heading(&policy->rules[first], &of_first, err));
    for (size_t i = 0; i < first; i++) {
        TRY(heading(&policy->rules[i], &of_each, err));
        if (strcmp(buffer_text(&of_each), buffer_text(&of_first)) == 0) return SUCCESS;
    }
    TRY(buffer_add_u8(&of_first, ':', err));
    TRY(set_text_paragraph("  ", 4, buffer_text(&of_first), text, err));
    buffer_truncate(&of_first, of_first.length - 1);
    for (size_t i = first; i < policy->rule_count; i++) {
        TRY(heading(&policy->rules[i], &of_each, err));
        if (strcmp(buffer_text(&of_each), buffer_text(&of_first)) == 0) TRY(tell_rule(&policy->rules[i], text, err));
    }
    return SUCCESS;
}

static struct result tell_type(const struct exception_type *type, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX);

    TRY(buffer_format(&line, err, "An exception \"%s\" may lift ", type->name));
    TRY(sentence_list(&type->lifts, "and", &line, err));
    TRY(buffer_format(&line, err, " for at most %" PRId64 " days, with %" PRId64 " approvals", type->max_days, type->approvals));
    if (type->required_evidence.count > 0) {
        TRY(buffer_add_text(&line, " and ", err));
        TRY(sentence_list(&type->required_evidence, "and", &line, err));
    }
    const size_t before = line.length;
    TRY(buffer_add_text(&line, "; then: ", err));
    TRY(sentence_duties(&type->adds, &line, err));
    if (line.length == before + 8) buffer_truncate(&line, before);
    return set_text_paragraph("  ", 4, buffer_text(&line), text, err);
}

/* ---- what it comes to ---- */

/* A name that the pattern matches: "any" for asterisks, and for the first two of them so often that it is the name of a repository. */
static struct result name_in(const char *pattern, struct buffer *name, struct error *err)
{
    size_t segments = 1;

    for (const char *at = pattern; *at != '\0'; at++) segments += *at == '/';
    for (const char *at = pattern; *at != '\0';) {
        const size_t length = strcspn(at, "*"), stars = strspn(at + length, "*");
        TRY(buffer_add(name, at, length, err));
        if (stars > 0) TRY(buffer_add_text(name, "any", err));
        for (; stars == 2 && segments < 3; segments++) TRY(buffer_add_text(name, "/any", err));
        at += length + stars;
    }
    return SUCCESS;
}

static struct result tell_names(const char *what, const char *nothing, const struct buffer *names, struct buffer *text,
                                struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX);

    if (names->length == 0) return set_text_paragraph("    - ", 6, nothing, text, err);
    TRY(buffer_format(&line, err, "%s%s", what, buffer_text(names)));
    return set_text_paragraph("    - ", 6, buffer_text(&line), text, err);
}

/* All policies of the set together, decided for one name in this one's first scope. */
static struct result tell_effects(const struct policy_set *set, const struct policy_document *policy,
                                  const struct set_reading *reading, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER regions = BUFFER(LINE_MAX), networks = BUFFER(LINE_MAX), line = BUFFER(LINE_MAX);
    const json_t *scope = json_object_get(json_object_get(policy->json, "metadata"), "scope");
    const int64_t now_us = reading->now_ms * 1000;
    const int64_t then_us = policy->effective_from_us > now_us ? policy->effective_from_us : now_us;
    OWNED(policy_decision) *decision = NULL;
    struct effects_question question;
    struct buffer OWNED_BUFFER name = BUFFER(4 * POLICY_SCOPE_MAX); /* "any" for each asterisk */

    TRY(name_in(json_string_value(json_array_get(scope, 0)), &name, err));
    if (name.length > POLICY_SCOPE_MAX) return SUCCESS; /* no name is so long, so nothing is there */
    TRY(effects_ask(set, buffer_text(&name), then_us, &question, err));
    TRY(effects_regions(&question, &regions, err));
    TRY(effects_networks(&question, &networks, err));
    TRY(effects_decide(&question, OP_READ, NULL, &decision, err));
    TRY(buffer_format(&line, err, "All policies together, for a name such as %s, with no label of its own but a stated lineage:",
                      buffer_text(&name)));
    TRY(set_text_paragraph("  ", 4, buffer_text(&line), text, err));
    TRY(tell_names("stored in ", "stored nowhere", &regions, text, err));
    if (policy_decision_allows(decision)) return set_text_paragraph("    - ", 6, "read from everywhere", text, err);
    return tell_names("read from the networks ", "read from no network", &networks, text, err);
}

/* ---- exceptions ---- */

static const char *state_of(const struct policy_exception *exception, int64_t now_us)
{
    if (exception->is_revoked) return "REVOKED";
    if (now_us >= exception->not_after_us) return "ENDED";
    return now_us < exception->not_before_us ? "not begun" : "IN FORCE";
}

static struct result tell_exception(const struct policy_exception *exception, const struct set_reading *reading,
                                    struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX);
    const json_t *asked = json_object_get(exception->json, "requested_by");
    char project[UUID_TEXT_SIZE], from[CLOCK_TEXT_SIZE], until[CLOCK_TEXT_SIZE];

    uuid_format(&exception->project, project);
    moment(exception->not_before_us, from);
    moment(exception->not_after_us, until);
    TRY(buffer_format(&line, err, "%s: exception %s (%s) lifts ", state_of(exception, reading->now_ms * 1000), exception->id,
                      exception->type));
    TRY(sentence_list(&exception->lifts, "and", &line, err));
    TRY(buffer_format(&line, err, " of %s@%" PRId64 " in the project %s, from %s to %s UTC, for ", exception->policy_id,
                      exception->policy_version, project, from, until));
    TRY(buffer_format(&line, err, "%zu digest%s, ", exception->digests.count, exception->digests.count == 1 ? "" : "s"));
    TRY(sentence_operations(exception->operations, &line, err));
    TRY(buffer_add_text(&line, " at ", err));
    TRY(sentence_list(&exception->targets, "and", &line, err));
    TRY(buffer_format(&line, err, "; asked by %s, approved by %zu others; ", json_text_of(asked, "sub"),
                      exception->approver_count));
    if (exception->uses == INT64_MAX) TRY(buffer_add_text(&line, "any number of uses", err));
    else TRY(buffer_format(&line, err, "%" PRId64 " use%s", exception->uses, exception->uses == 1 ? "" : "s"));
    return set_text_paragraph("  ", 4, buffer_text(&line), text, err);
}

static bool is_of(const struct policy_exception *exception, const struct policy_document *policy)
{
    return strcmp(exception->policy_id, policy->id) == 0 && exception->policy_version == policy->version;
}

static struct result tell_policy(const struct policy_set *set, const struct policy_document *policy,
                                 const struct set_reading *reading, struct buffer *text, struct error *err)
{
    TRY(tell_head(policy, reading, text, err));
    TRY(tell_reach(policy, text, err));
    for (size_t i = 0; i < policy->rule_count; i++) TRY(tell_class(policy, i, text, err));
    for (size_t i = 0; i < policy->type_count; i++) TRY(tell_type(&policy->types[i], text, err));
    for (size_t i = 0; i < set->exception_count; i++)
        if (is_of(set->exceptions[i], policy)) TRY(tell_exception(set->exceptions[i], reading, text, err));
    TRY(tell_effects(set, policy, reading, text, err));
    return buffer_add_u8(text, '\n', err);
}

/* They lift nothing, but somebody signed them. */
static struct result tell_strays(const struct policy_set *set, const struct set_reading *reading, struct buffer *text,
                                 struct error *err)
{
    size_t told = 0;

    for (size_t i = 0; i < set->exception_count; i++) {
        size_t owner = 0;
        while (owner < set->documents->count && !is_of(set->exceptions[i], set->documents->documents[owner])) owner++;
        if (owner < set->documents->count) continue;
        if (told++ == 0) TRY(buffer_add_text(text, "Exceptions to policies that are not in this set\n", err));
        TRY(tell_exception(set->exceptions[i], reading, text, err));
    }
    return told == 0 ? SUCCESS : buffer_add_u8(text, '\n', err);
}

/* ---- the other parts ---- */

/* Until when its attributes count, and which store it is. */
static struct result tell_record(const struct set_region *region, struct buffer *line, struct error *err)
{
    static const char *const members[] = {"driver", "endpoint", "bucket", "prefix", "bucket_location", "file_system", "mark"};
    const json_t *store = json_object_get(region->record, "store");
    const char *name = NULL;
    json_t *each = NULL;

    json_object_foreach (json_object_get(region->record, "attested"), name, each)
        TRY(buffer_format(line, err, "; %s attested until %s", name, json_text_of(each, "until")));
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const char *text = json_text_of(store, members[i]);
        if (text != NULL && text[0] != '\0') TRY(buffer_format(line, err, "%s %s", i == 0 ? "; store:" : "", text));
    }
    if (json_text_of(region->record, "keyd") == NULL) return SUCCESS;
    return buffer_format(line, err, "; its own sijil-keyd: %s", json_text_of(region->record, "keyd"));
}

static struct result tell_places(const struct policy_set *set, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX);

    TRY(buffer_add_text(text, set->region_count == 0 ? "Regions: none\n" : "Regions\n", err));
    for (size_t i = 0; i < set->region_count; i++) {
        buffer_clear(&line);
        TRY(buffer_format(&line, err, "%s: ", set->regions[i].id));
        TRY(sentence_target(set->regions[i].target, &line, err));
        TRY(tell_record(&set->regions[i], &line, err));
        TRY(set_text_paragraph("  ", 4, buffer_text(&line), text, err));
    }
    TRY(buffer_add_text(text, set->place_count == 0 ? "\nNetworks: none, so nothing is known of any client\n" : "\nNetworks\n",
                        err));
    for (size_t i = 0; i < set->place_count; i++) {
        buffer_clear(&line);
        TRY(buffer_format(&line, err, "%s: ", set->networks[i].cidr));
        TRY(sentence_target(set->networks[i].target, &line, err));
        TRY(set_text_paragraph("  ", 4, buffer_text(&line), text, err));
    }
    return SUCCESS;
}

static struct result tell_groups(const struct policy_set *set, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX);

    if (set->groups->count > 0) TRY(buffer_add_text(text, "\nGroups\n", err));
    for (size_t i = 0; i < set->groups->count; i++) {
        const struct policy_group *group = &set->groups->groups[i];
        const json_t *json = json_object_get(set->groups->json, group->name);
        const char *as_of = json_text_of(json, "as_of"), *note = json_text_of(json, "note");
        buffer_clear(&line);
        TRY(buffer_format(&line, err, "%s: ", group->name));
        TRY(group->members.count == 0 ? buffer_add_text(&line, "empty, so nothing qualifies", err)
                                      : sentence_list(&group->members, "and", &line, err));
        if (as_of != NULL) TRY(buffer_format(&line, err, " (as of %s)", as_of));
        if (note != NULL) TRY(buffer_format(&line, err, "; %s", note));
        TRY(set_text_paragraph("  ", 4, buffer_text(&line), text, err));
    }
    return SUCCESS;
}

static struct result tell_declassified(const struct policy_set *set, struct buffer *text, struct error *err)
{
    const json_t *array = json_object_get(set->json, "declassified");
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX);

    if (set->declassified_count > 0) TRY(buffer_add_text(text, "\nDeclassified\n", err));
    for (size_t i = 0; i < set->declassified_count; i++) {
        const json_t *each = json_array_get(array, i);
        buffer_clear(&line);
        TRY(add_texts(json_object_get(each, "scope"), &line, err));
        TRY(buffer_format(&line, err, ": labels that %s left have no effect, because %s", json_text_of(each, "policy"),
                          json_text_of(each, "reason")));
        const char *evidence = json_text_of(each, "evidence");
        TRY(evidence == NULL ? buffer_add_text(&line, " (without evidence)", err) : buffer_format(&line, err, " (%s)", evidence));
        TRY(set_text_paragraph("  ", 4, buffer_text(&line), text, err));
    }
    return SUCCESS;
}

struct result policy_set_text(const struct policy_set *set, const struct set_reading *reading, struct buffer *text,
                              struct error *err)
{
    for (size_t i = 0; i < set->documents->count; i++) {
        const struct policy_document *policy = set->documents->documents[i];
        if (reading->policy == NULL || strcmp(reading->policy, policy->id) == 0)
            TRY(tell_policy(set, policy, reading, text, err));
    }
    if (reading->policy != NULL) return SUCCESS;
    TRY(tell_strays(set, reading, text, err));
    TRY(set_text_paragraph("", 0, "What no policy above permits is denied, for everybody and everywhere.", text, err));
    TRY(buffer_add_u8(text, '\n', err));
    TRY(tell_places(set, text, err));
    TRY(tell_groups(set, text, err));
    return tell_declassified(set, text, err);
}

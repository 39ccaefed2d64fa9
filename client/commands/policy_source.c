#include "client/commands/policy_source_priv.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "client/local.h"
#include "client/terminal.h"
#include "client/yaml.h"
#include "crypto/dsse.h"
#include "policy/set_export.h"

static struct result compile(struct policy_source *source, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);

    TRY(policy_compose(source->document, 0, &payload, err));
    return policy_set_compile(buffer_bytes(&payload), &source->set, err);
}

/* Almost all JSON is YAML, too: then the lines are those of the same values. */
static struct result find_lines(struct bytes text, struct policy_source *source, struct error *err)
{
    OWNED_JSON value = NULL;
    OWNED_JSON lines = NULL;
    struct error none = {0};

    if (yaml_read(text, POLICY_SET_BYTES_MAX, "set", &value, &lines, &none).ok && json_equal(value, source->document))
        source->lines = GIVE(lines);
    return none.kind == ERROR_NO_MEMORY ? api_no_memory(err) : SUCCESS;
}

/* What its signers agreed to beside the policies is in the set alone. */
static struct result take_document(struct policy_source *source, struct error *err)
{
    struct buffer OWNED_BUFFER document = BUFFER(POLICY_SET_BYTES_MAX);

    TRY(policy_set_write(source->set, &document, err));
    return json_read(buffer_bytes(&document), POLICY_SET_BYTES_MAX, &source->document, err);
}

static struct result open_signed(struct bytes text, struct policy_source *source, struct error *err)
{
    OWNED(dsse) *dsse = NULL;

    source->envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    TRY(buffer_add(&source->envelope, text.data, text.length, err));
    if (source->root != NULL) return policy_set_read(text, source->root, &source->set, err);
    TRY(dsse_read(text, POLICY_SET_ENVELOPE_MAX, &dsse, err));
    if (strcmp(dsse->payload_type, POLICY_SET_TYPE) != 0)
        return failure(err, ERROR_INVALID, "what is signed is no policy set: its payload type is not " POLICY_SET_TYPE);
    return policy_set_compile(buffer_bytes(&dsse->payload), &source->set, err);
}

/* It says itself who must sign. */
static struct result open_exported(struct bytes text, const json_t *json, struct policy_source *source, struct error *err)
{
    const char *envelope = json_string_value(json_array_get(json_object_get(json, "envelopes"), 0));
    struct set_export_report report;

    if (source->root == NULL && envelope != NULL) return open_signed(bytes_of_text(envelope), source, err);
    if (source->root == NULL) return failure(err, ERROR_INVALID, "an exported policy set has an envelope");
    TRY(set_export_open(text, source->root, &report, err));
    restriction_chain_free(report.restrictions);
    source->set = report.set;
    source->chain = report.chain;
    const struct bytes checked = policy_set_envelope(source->set);
    source->envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    return buffer_add(&source->envelope, checked.data, checked.length, err);
}

struct result policy_source_parse(struct bytes text, struct policy_source *source, struct error *err)
{
    OWNED_JSON json = NULL;

    TRY(json_read(text, SET_EXPORT_MAX, &json, err));
    const bool is_signed = json_object_get(json, "payloadType") != NULL, is_exported = set_export_is(json);
    if (is_signed) TRY(open_signed(text, source, err));
    else if (is_exported) TRY(open_exported(text, json, source, err));
    if (is_signed || is_exported) return take_document(source, err);
    if (source->root != NULL) return failure(err, ERROR_DENIED, "it is not signed");
    source->document = GIVE(json);
    TRY(find_lines(text, source, err));
    return compile(source, err);
}

struct result policy_source_file(const char *path, struct policy_source *source, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_EXPORT_MAX);

    source->name = path;
    TRY(local(file_read(path, &text, err), path, err));
    return local(policy_source_parse(buffer_bytes(&text), source, err), path, err);
}

static bool ends_in(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);

    return length > tail && strcmp(text + length - tail, end) == 0;
}

/* No registry has such a name, so a file that is missing is said to be missing. */
bool policy_source_is_file(const char *operand)
{
    return access(operand, F_OK) == 0 || strchr(operand, '/') != NULL || ends_in(operand, ".json") || ends_in(operand, ".dsse");
}

/* From the bytes that were signed: the registry's words about them are not trusted. */
static struct result take_answer(const json_t *answer, struct policy_source *source, struct error *err)
{
    const char *envelope = json_text_of(answer, "envelope");
    const json_t *set = json_object_get(answer, "set");
    const struct ecdsa_key *root = source->root;

    if (envelope == NULL || set == NULL)
        return failure(err, ERROR_INVALID, "the registry answered without the set: it is older than this program");
    source->root = NULL; /* its signatures are checked with the sets before it */
    const struct result opened = open_signed(bytes_of_text(envelope), source, err);
    source->root = root;
    TRY(opened);
    source->signers = json_incref(json_object_get(answer, "signers"));
    TRY(take_document(source, err));
    if (json_equal(source->document, set) == 1) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "the registry shows another set than the one that was signed");
}

struct result policy_source_fetch(struct session *session, uint64_t epoch, struct policy_source *source, struct error *err)
{
    char path[64] = "/policies?envelope=true"; /* and a number of 20 digits */
    OWNED_JSON answer = NULL;

    source->is_registry = true;
    if (epoch != 0) (void)snprintf(path, sizeof path, "/policies?envelope=true&epoch=%llu", (unsigned long long)epoch);
    TRY(api_call_in(session, "GET", path, NULL, &answer, err));
    TRY(take_answer(answer, source, err));
    if (epoch == 0 || policy_set_epoch(source->set) == epoch) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "the registry answered with the set of epoch %llu, and not with that of epoch %llu",
                   (unsigned long long)policy_set_epoch(source->set), (unsigned long long)epoch);
}

struct result policy_source_read(struct invocation *invocation, const char *operand, struct policy_source *source,
                                 struct error *err)
{
    OWNED(session) *session = NULL;

    if (policy_source_is_file(operand)) return line_check(invocation, policy_source_file(operand, source, err));
    source->name = operand;
    TRY(command_session(invocation, operand, &session, err));
    return policy_source_fetch(session, 0, source, err);
}

/* --- lines --- */

static bool is_named(const json_t *policy, const char *name)
{
    const json_t *metadata = json_object_get(policy, "metadata");
    const char *id = json_text_of(metadata, "id");
    char whole[128];

    (void)snprintf(whole, sizeof whole, "%s@%lld", id == NULL ? "" : id,
                   (long long)json_integer_value(json_object_get(metadata, "version")));
    return strcmp(whole, name) == 0;
}

static unsigned line_of_rule(const json_t *policy, const json_t *lines, const char *rule)
{
    const json_t *rules = json_object_get(policy, "rules"), *rule_lines = yaml_member(lines, "rules");

    for (size_t i = 0; i < json_array_size(rules); i++) {
        const char *id = json_text_of(json_array_get(rules, i), "id");
        if (id != NULL && strcmp(id, rule) == 0) return yaml_line(yaml_element(rule_lines, i));
    }
    return yaml_line(lines);
}

unsigned policy_source_line(const struct policy_source *source, const char *policy, const char *rule)
{
    const json_t *policies = json_object_get(source->document, "policies"), *lines = yaml_member(source->lines, "policies");

    for (size_t i = 0; i < json_array_size(policies) && source->lines != NULL; i++) {
        const json_t *each = json_array_get(policies, i);
        if (!is_named(each, policy)) continue;
        return line_of_rule(each, yaml_element(lines, i), rule == NULL ? "" : rule);
    }
    return 0;
}

void policy_source_print(const char *text)
{
    char shown[1024];

    (void)snprintf(shown, sizeof shown, "%s", text);
    terminal_sanitize(shown);
    (void)fputs(shown, stdout);
}

void policy_source_done(struct policy_source *source)
{
    policy_set_free(source->set);
    json_decref(source->document);
    json_decref(source->lines);
    json_decref(source->signers);
    buffer_done(&source->envelope);
    set_chain_free(source->chain);
    *source = (struct policy_source){.name = NULL};
}

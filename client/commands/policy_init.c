/* `sijil policy init`: a whole policy set for one regime, from five answers. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "client/terminal.h"
#include "policy/set_text.h"
#include "policy/template.h"

#define ANSWER_SIZE 512 /* a list of networks or of names */
#define TRIES       3   /* a person who misspells; then the command ends */

/* What was typed, and the views into it. */
struct typed {
    struct template_answers answers;
    char regime[ANSWER_SIZE], place[ANSWER_SIZE], region[ANSWER_SIZE], networks[ANSWER_SIZE], officers[ANSWER_SIZE];
};

/* ---- the options ---- */

static struct result add_value(const char **list, size_t *count, size_t most, const char *value, struct error *err)
{
    if (*count == most) return failure(err, ERROR_LIMIT, "at most %zu of these at once", most);
    list[(*count)++] = value;
    return SUCCESS;
}

static struct result read_options(const struct invocation *invocation, struct template_answers *answers, struct error *err)
{
    unsigned at = 0;

    answers->regime = invocation_option(invocation, 'r');
    answers->place = invocation_option(invocation, 'O');
    answers->region = invocation_option(invocation, 'R');
    for (const char *each; (each = invocation_next_option(invocation, 'n', &at)) != NULL;)
        TRY(add_value(answers->networks, &answers->network_count, TEMPLATE_NETWORKS_MAX, each, err));
    at = 0;
    for (const char *each; (each = invocation_next_option(invocation, 'p', &at)) != NULL;)
        TRY(add_value(answers->officers, &answers->officer_count, TEMPLATE_OFFICERS_MAX, each, err));
    return SUCCESS;
}

/* ---- the questions ---- */

static struct result check_regime(const struct template_answers *answers, struct error *err)
{
    OWNED_JSON template = NULL;

    return policy_template_read(answers->regime, &template, err);
}

static struct result check_place(const struct template_answers *answers, struct error *err)
{
    char id[TEMPLATE_ID_SIZE];

    return policy_template_id(answers, id, err);
}

typedef RESULT check_answer(const struct template_answers *answers, struct error *err);

/* Asks until the answer is good. `answer` is the member of the answers that the typed text becomes. */
static struct result ask(const char *question, char typed[ANSWER_SIZE], const char **answer,
                         const struct template_answers *answers, check_answer *check, struct error *err)
{
    if (*answer != NULL) return SUCCESS;
    for (unsigned tries = 1;; tries++) {
        TRY(terminal_ask(question, typed, ANSWER_SIZE, err));
        *answer = typed;
        const struct result checked = check(answers, err);
        if (checked.ok || tries == TRIES) return checked;
        (void)fprintf(stderr, "  %s\n", err->message);
    }
}

/* The region may be left to the set, if it has one only. */
static struct result ask_region(struct typed *typed, const json_t *regions, struct error *err)
{
    struct buffer OWNED_BUFFER question = BUFFER(65536); /* 256 names of regions */
    const char *name = NULL, *only = NULL;
    json_t *facts = NULL;

    if (typed->answers.region != NULL) return SUCCESS;
    TRY(buffer_add_text(&question, "3 of 5: In which region is its content?", err));
    json_object_foreach ((json_t *)(uintptr_t)regions, name, facts) {
        TRY(buffer_format(&question, err, "%s %s", only == NULL ? "\n  One of the set:" : ",", name));
        only = name;
    }
    if (json_object_size(regions) == 1) TRY(buffer_format(&question, err, " (default)"));
    TRY(buffer_add_text(&question, "\n  Or a new one: PROVIDER/NAME=PLACE,REGIME, such as onprem/adgm-1=AE/AZ,ADGM\n ", err));
    TRY(terminal_ask(buffer_text(&question), typed->region, sizeof typed->region, err));
    typed->answers.region = typed->region[0] == '\0' && json_object_size(regions) == 1 ? only : typed->region;
    return SUCCESS;
}

/* Cuts "a, b" into its parts, in place. */
static struct result cut(char *text, const char **list, size_t *count, size_t most, struct error *err)
{
    while (*(text += strspn(text, ", ")) != '\0') {
        const char *each = text;
        text += strcspn(text, ", ");
        if (*text != '\0') *text++ = '\0';
        TRY(add_value(list, count, most, each, err));
    }
    return SUCCESS;
}

static struct result ask_lists(struct typed *typed, struct error *err)
{
    struct template_answers *answers = &typed->answers;

    if (answers->network_count == 0) {
        TRY(terminal_ask("4 of 5: In which networks are its clients? (10.1.0.0/16, ...; none: nothing is known of clients)",
                         typed->networks, sizeof typed->networks, err));
        TRY(cut(typed->networks, answers->networks, &answers->network_count, TEMPLATE_NETWORKS_MAX, err));
    }
    if (answers->officer_count > 0) return SUCCESS;
    TRY(terminal_ask("5 of 5: Who is told of each exception? (names; none: those of the template)", typed->officers,
                     sizeof typed->officers, err));
    return cut(typed->officers, answers->officers, &answers->officer_count, TEMPLATE_OFFICERS_MAX, err);
}

static struct result ask_regime(struct typed *typed, struct error *err)
{
    struct buffer OWNED_BUFFER question = BUFFER(1024); /* seven short names */
    const char *name = NULL;

    TRY(buffer_add_text(&question, "1 of 5: Which regime? (", err));
    for (size_t i = 0; (name = policy_template_regime(i)) != NULL; i++)
        TRY(buffer_format(&question, err, "%s%s", i > 0 ? ", " : "", name));
    TRY(buffer_add_text(&question, ")", err));
    return ask(buffer_text(&question), typed->regime, &typed->answers.regime, &typed->answers, check_regime, err);
}

static struct result ask_all(struct typed *typed, const json_t *regions, struct error *err)
{
    struct template_answers *answers = &typed->answers;

    TRY(ask_regime(typed, err));
    TRY(ask("2 of 5: For which organisation or project? (clinic, clinic/imaging)", typed->place, &answers->place, answers,
            check_place, err));
    TRY(ask_region(typed, regions, err));
    return ask_lists(typed, err);
}

/* Without a terminal nobody answers; the region may be the only one. */
static struct result complete(struct invocation *invocation, struct typed *typed, const json_t *regions, struct error *err)
{
    struct template_answers *answers = &typed->answers;

    const bool is_complete = answers->regime != NULL && answers->place != NULL && answers->region != NULL;
    if (!is_complete && terminal_is_there()) return ask_all(typed, regions, err);
    if (answers->region == NULL && json_object_size(regions) == 1)
        answers->region = json_object_iter_key(json_object_iter((json_t *)(uintptr_t)regions));
    if (answers->regime == NULL || answers->place == NULL || answers->region == NULL)
        return line_check(invocation,
                          failure(err, ERROR_INVALID, "without a terminal --regime, --organisation and --region are needed"));
    return SUCCESS;
}

/* ---- the set ---- */

static struct result read_before(struct invocation *invocation, json_t **before_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED(session) *session = NULL;
    struct policy_source OWNED_SOURCE found = {.name = NULL};

    if (invocation->operand_count == 0) return SUCCESS;
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(policy_source_fetch(session, 0, &found, err));
    TRY(policy_set_write(found.set, &text, err));
    return json_read(buffer_bytes(&text), POLICY_SET_BYTES_MAX, before_out, err);
}

/* What it does, for the person that signs it; on standard error, because the set may go to standard output. */
static struct result tell(const struct invocation *invocation, const struct policy_set *set,
                          const struct template_answers *answers, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);
    char id[TEMPLATE_ID_SIZE];
    const char *output = invocation_option(invocation, 'o');

    if (invocation->json) return SUCCESS;
    TRY(policy_template_id(answers, id, err));
    const struct set_reading reading = {.now_ms = answers->now_ms, .policy = id};
    TRY(policy_set_text(set, &reading, &text, err));
    TRY(policy_template_effects(set, answers, &text, err));
    if (output == NULL || strcmp(output, "-") == 0) output = "SET.json";
    const char *host = invocation->operand_count == 0 ? "HOST" : invocation->operands[0];
    TRY(buffer_format(&text, err,
                      "\nNothing is in force yet. To read it, to sign it and to load it:\n"
                      "  sijil policy show %s\n"
                      "  sijil policy sign --key APPROVER.pem --epoch %llu -o SET.dsse %s\n"
                      "  sijil policy load %s SET.dsse\n"
                      "Where several persons sign: sijil policy draft %s %s\n",
                      output, (unsigned long long)policy_set_epoch(set), output, host, host, output));
    if (strchr(answers->region, '=') != NULL)
        TRY(buffer_format(
            &text, err,
            "The new region has no store yet. Once the set is in force, give it one:\n  sijil region add %s %.*s --change\n",
            host, (int)strcspn(answers->region, "="), answers->region));
    (void)fputs(buffer_text(&text), stderr);
    return SUCCESS;
}

struct result policy_write_payload(const struct invocation *invocation, struct bytes payload, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(4 * (size_t)POLICY_SET_BYTES_MAX);
    OWNED_JSON json = NULL;

    TRY(json_read(payload, POLICY_SET_BYTES_MAX, &json, err));
    OWNED_STRING pretty = json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS);
    if (pretty == NULL) return api_no_memory(err);
    TRY(buffer_add_text(&text, pretty, err));
    TRY(buffer_add_u8(&text, '\n', err));
    return api_output(invocation, invocation_option(invocation, 'o'), buffer_bytes(&text), err);
}

struct result command_policy_init(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct typed typed = {.answers = {.now_ms = clock_wall_ms()}};
    OWNED(policy_set) *set = NULL;
    OWNED_JSON before = NULL;

    TRY(line_check(invocation, read_options(invocation, &typed.answers, err)));
    TRY(read_before(invocation, &before, err));
    TRY(complete(invocation, &typed, json_object_get(before, "regions"), err));
    TRY(policy_template_set(&typed.answers, before, &payload, err));
    TRY(policy_set_compile(buffer_bytes(&payload), &set, err));
    TRY(tell(invocation, set, &typed.answers, err));
    return policy_write_payload(invocation, buffer_bytes(&payload), err);
}

/*
 * A specification for the person that signs it: one member a line, and a text with line breaks (a script) line by line. The signed bytes have
 * canonical JSON; nothing is left out here, and no text can look like another member.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/terminal_text.h"
#include "client/commands/run_priv.h"

#define INDENT    2
#define DEPTH_MAX 8 /* a specification has three levels */

/* Characters that would steer a terminal become escapes. */
static void write_line(FILE *stream, const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        size_t used = 0;
        const uint32_t control = terminal_control(text + at, &used);
        if (used == 0) used = 1;
        if (control != 0) (void)fprintf(stream, "\\u%04x", (unsigned)control);
        else (void)fwrite(text + at, 1, used, stream);
        at += used;
    }
}

/* Each line begins with "| ". A text that ends with a line break has an empty one at the end. */
static void write_lines(FILE *stream, const char *text, int depth)
{
    (void)fputs("|\n", stream);
    for (const char *line = text;; line++) {
        const size_t length = strcspn(line, "\n");
        (void)fprintf(stream, "%*s| ", depth * INDENT, "");
        write_line(stream, line, length);
        (void)fputc('\n', stream);
        line += length;
        if (*line == '\0') return;
    }
}

static struct result write_plain(FILE *stream, const json_t *value, int depth, struct error *err)
{
    const char *text = json_string_value(value);

    if (text == NULL || strlen(text) != json_string_length(value) || strchr(text, '\n') == NULL)
        return api_write_json(stream, value, err);
    write_lines(stream, text, depth);
    return SUCCESS;
}

static bool is_plain(const json_t *value)
{
    return (!json_is_object(value) && !json_is_array(value)) || json_object_size(value) + json_array_size(value) == 0;
}

static struct result write_value(FILE *stream, const json_t *value, int depth, struct error *err);

/* Without a name: of a list. */
static struct result write_member(FILE *stream, const char *name, const json_t *value, int depth, struct error *err)
{
    (void)fprintf(stream, "%*s", depth * INDENT, "");
    if (name != NULL) write_line(stream, name, strlen(name));
    (void)fputc(name == NULL ? '-' : ':', stream);
    if (is_plain(value)) {
        (void)fputc(' ', stream);
        return write_plain(stream, value, depth + 1, err);
    }
    (void)fputc('\n', stream);
    return write_value(stream, value, depth + 1, err);
}

static struct result write_value(FILE *stream, const json_t *value, int depth, struct error *err)
{
    const json_t *each;
    const char *name;
    size_t i;

    if (depth > DEPTH_MAX) return api_write_json(stream, value, err);
    json_object_foreach ((json_t *)(uintptr_t)value, name, each) {
        TRY(write_member(stream, name, each, depth, err));
    }
    json_array_foreach (value, i, each) TRY(write_member(stream, NULL, each, depth, err));
    return SUCCESS;
}

/* Why a request that no person has signed needs more approvals than the policies ask for. */
static void show_claims(const struct run_envelope *request, FILE *stream)
{
    const json_t *claims = run_member(request, "claims");
    char issuer[CELL_MAX], subject[CELL_MAX];

    if (claims == NULL) return;
    cell_text(json_object_get(claims, "issuer"), issuer);
    cell_text(json_object_get(claims, "subject"), subject);
    if (run_is_of_rule(request)) (void)fprintf(stream, "asked for by the trust rule %s", subject);
    else (void)fprintf(stream, "asked for by the token of %s of %s", subject, issuer);
    (void)fprintf(stream, ", and signed by sijil-keyd for it\n");
    if (run_approvals_needed(request, 1) > 1)
        (void)fprintf(
            stream,
            "nobody knows the person behind it: if the policies ask for approvals, it needs one approval more than the policies ask for\n");
}

struct result run_show_request(const struct run_envelope *request, FILE *stream, struct error *err)
{
    (void)fprintf(stream, "request %s of %s:\n", request->digest, run_text(request, "requester"));
    show_claims(request, stream);
    return write_value(stream, run_member(request, "spec"), 1, err);
}

/* A name that nobody has signed: another one of a subject is not shown in its place. */
static void show_robot(const json_t *person, FILE *stream)
{
    const char *principal = json_text_of(person, "principal");
    char robot[CELL_MAX], shown[CELL_MAX];

    if (principal == NULL || strncmp(principal, "robot:", 6) != 0 || json_text_of(person, "robot") == NULL) return;
    cell_text(json_object_get(person, "principal"), shown);
    cell_text(json_object_get(person, "robot"), robot);
    (void)fprintf(stream, "%s is the robot %s, as the registry says\n", shown, robot);
}

void run_show_people(const json_t *people, FILE *stream)
{
    char subject[CELL_MAX], issuer[CELL_MAX], principal[CELL_MAX];
    const json_t *person;
    size_t i;

    json_array_foreach (people, i, person) {
        const json_t *holder = verified_holder(person, json_text_of(person, "principal"));
        show_robot(person, stream);
        if (holder == NULL) continue;
        cell_text(json_object_get(person, "principal"), principal);
        cell_text(json_object_get(holder, "subject"), subject);
        cell_text(json_object_get(holder, "issuer"), issuer);
        (void)fprintf(stream, "%s is %s of %s\n", principal, subject, issuer);
    }
}

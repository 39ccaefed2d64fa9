/*
 * gateway/pipeline/schema.h -- the schemas of request bodies and answers; each is defined beside its handler.
 *
 * A schema has three uses. The body of a request is checked against it (gateway/pipeline/document.h). The description of the
 * API is made from it (gateway/api/openapi.c, docs/api.md). Tests check each answer against that description. The rows of
 * gateway/routes.def name the schemas of a route, and so declare them.
 *
 * SCHEMA(robot_wanted, "a robot to be made", HAS_TEXT("name", REQUIRED, FORM_NAME, 1, 63, "its name in its organisation"),
 * HAS_NUMBER("expires_days", OPTIONAL, 1, 90, "days until its secret ends; 90 if left out"))
 */
#pragma once

#include "base/json.h"

enum schema_type { SCHEMA_TEXT, SCHEMA_NUMBER, SCHEMA_FLAG, SCHEMA_OBJECT, SCHEMA_LIST, SCHEMA_LIST_OF_TEXTS, SCHEMA_ANY };

/** Forms of texts: JSON Schema format, regular expression, and the word for people. */
/* The form that issuer_url_is_valid() accepts; that function decides. */
#define ISSUER_PATTERN "^https://[a-z0-9\\[\\]-]([a-z0-9.:\\[\\]-]*[a-z0-9.\\[\\]-])?(/[!$-;=A-Z\\[\\]_a-z~]*)?$"
#define UUID_PATTERN   "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$" /* in the one spelling that is taken */
/* Those of training/states.def; tests/unit/test_schema.c compares them. */
#define RUN_STATE_PATTERN \
    "^(awaiting approval|requested|ordered|leased|running|finishing|succeeded|failed|cancelled|expired|refused|quarantined)$"
#define SCHEMA_FORMS(X)                                                                                      \
    X(FORM_FREE, NULL, NULL, "text")                                                                         \
    X(FORM_ID, "uuid", UUID_PATTERN, "id")                                                                   \
    X(FORM_TIME, "date-time", NULL, "time")                                                                  \
    X(FORM_SIGNED_TIME, "date-time", NULL, "time as it was signed, in any zone")                             \
    X(FORM_URL, "uri", ISSUER_PATTERN, "URL")                                                                \
    X(FORM_DIGEST, NULL, "^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$", "digest")                              \
    X(FORM_NAME, NULL, "^[a-z0-9]+([._-][a-z0-9]+)*$", "name")                                               \
    X(FORM_PROJECT, NULL, "^[a-z0-9]+([._-][a-z0-9]+)*/[a-z0-9]+([._-][a-z0-9]+)*$", "organisation/project") \
    X(FORM_NAMESPACE, NULL, "^([a-z0-9]+([._-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)?)?$",                 \
      "organisation or organisation/project")                                                                \
    X(FORM_NUMBER, NULL, "^(0|[1-9][0-9]{0,18})$", "number")                                                 \
    X(FORM_BASE64, NULL, "^[A-Za-z0-9+/]+={0,2}$", "text in base64")                                         \
    X(FORM_RUN_STATE, NULL, RUN_STATE_PATTERN, "state of a run")
enum schema_form {
#define X(constant, format, pattern, word) constant,
    SCHEMA_FORMS(X)
#undef X
        SCHEMA_FORM_COUNT
};

/* Whether a member is required, and whether it may be null. */
enum schema_presence { OPTIONAL = 0, REQUIRED = 1, NULLABLE = 2 };

struct schema;

struct schema_member {
    const char *name;
    enum schema_type type;
    unsigned presence;
    enum schema_form form;   /* of a text, and of texts in a list */
    int64_t least, most;     /* of a number; bytes of a text; elements of a list. `most` 0: the upper bound is not stated */
    const char *words;       /* of a text: the allowed words, with spaces before or between them; NULL: any text */
    const struct schema *of; /* of an object, and of objects in a list */
    const char *meaning;
};

enum schema_flag {
    SCHEMA_IS_OPEN = 1,           /* it may have other members */
    SCHEMA_IS_READ_ELSEWHERE = 2, /* another parser checks its members more strictly; request_document() does not check them */
    SCHEMA_MAY_BE_LEFT_OUT = 4,   /* an optional body */
    SCHEMA_HAS_SECRET = 8         /* an answer with a secret, which is shown once: it is not kept for repeats of the request */
};

struct schema {
    const char *name; /* "robot_wanted" */
    const char *meaning;
    const char *content_type; /* NULL: there is no body */
    unsigned flags;           /* enum schema_flag */
    size_t count;
    const struct schema_member *members; /* NULL: the schema does not describe its members */
};

#define HAS_TEXT(label, present, shape, shortest, longest, text)                                                              \
    {                                                                                                                         \
        .name = (label), .type = SCHEMA_TEXT, .presence = (present), .form = (shape), .least = (shortest), .most = (longest), \
        .meaning = (text)                                                                                                     \
    }
/** For the X-macro of an enum, whose second column is the word: HAS_WORD("kind", REQUIRED, JOB_KINDS(SCHEMA_WORD), "..."). */
#define SCHEMA_WORD(...)                    SCHEMA_WORD_OF(__VA_ARGS__, )
#define SCHEMA_WORD_OF(constant, word, ...) " " word
#define HAS_WORD(label, present, these, text)                                                            \
    {                                                                                                    \
        .name = (label), .type = SCHEMA_TEXT, .presence = (present), .words = (these), .meaning = (text) \
    }
#define HAS_ID(label, present, text)   HAS_TEXT(label, present, FORM_ID, 36, 36, text)
#define HAS_TIME(label, present, text) HAS_TEXT(label, present, FORM_TIME, 20, 24, text)
/** A time in a signed document, which is shown as it was signed. */
#define HAS_SIGNED_TIME(label, present, text) HAS_TEXT(label, present, FORM_SIGNED_TIME, 20, 0, text)
#define HAS_NUMBER(label, present, low, high, text)                                                                      \
    {                                                                                                                    \
        .name = (label), .type = SCHEMA_NUMBER, .presence = (present), .least = (low), .most = (high), .meaning = (text) \
    }
#define HAS_COUNT(label, present, text) HAS_NUMBER(label, present, 0, INT64_MAX, text)
#define HAS_FLAG(label, present, text)                                                 \
    {                                                                                  \
        .name = (label), .type = SCHEMA_FLAG, .presence = (present), .meaning = (text) \
    }
#define HAS_OBJECT(label, present, schema, text)                                                          \
    {                                                                                                     \
        .name = (label), .type = SCHEMA_OBJECT, .presence = (present), .of = &(schema), .meaning = (text) \
    }
#define HAS_SOME(label, present, fewest, longest, schema, text)                                                             \
    {                                                                                                                       \
        .name = (label), .type = SCHEMA_LIST, .presence = (present), .least = (fewest), .most = (longest), .of = &(schema), \
        .meaning = (text)                                                                                                   \
    }
#define HAS_LIST(label, present, longest, schema, text) HAS_SOME(label, present, 0, longest, schema, text)
#define HAS_TEXTS(label, present, fewest, longest, these, text)                                                     \
    {                                                                                                               \
        .name = (label), .type = SCHEMA_LIST_OF_TEXTS, .presence = (present), .least = (fewest), .most = (longest), \
        .words = (these), .meaning = (text)                                                                         \
    }
#define HAS_ANY(label, present, text)                                                 \
    {                                                                                 \
        .name = (label), .type = SCHEMA_ANY, .presence = (present), .meaning = (text) \
    }
/** A page's value for the parameter `after`. */
#define HAS_NEXT HAS_TEXT("next", OPTIONAL, FORM_FREE, 1, 255, "there is more: the value for the parameter `after`")

#define SCHEMA_OF(linkage, object, text, bits, ...)                                    \
    static const struct schema_member members_of_##object[] = {__VA_ARGS__};           \
    linkage const struct schema schema_##object = {.name = #object,                    \
                                                   .meaning = (text),                  \
                                                   .content_type = "application/json", \
                                                   .flags = (bits),                    \
                                                   .members = members_of_##object,     \
                                                   .count = sizeof members_of_##object / sizeof members_of_##object[0]};
/** An object with these members and no others; a row of gateway/routes.def declares it. */
#define SCHEMA(object, text, ...)             SCHEMA_OF(, object, text, 0, __VA_ARGS__)
#define SCHEMA_WITH(flags, object, text, ...) SCHEMA_OF(, object, text, flags, __VA_ARGS__)
/** A part of another schema in the same file. */
#define PART(object, text, ...)             SCHEMA_OF(static, object, text, 0, __VA_ARGS__)
#define PART_WITH(flags, object, text, ...) SCHEMA_OF(static, object, text, flags, __VA_ARGS__)

extern const struct schema schema_none, schema_empty, schema_text, schema_exposition, schema_bytes, schema_json, schema_openapi,
    schema_entry, schema_manifest, schema_index, schema_problem, schema_errors;

/** The word, format and pattern of a form; `format` and `pattern` may be NULL. */
struct schema_spelling {
    const char *format, *pattern, *word;
};
struct schema_spelling schema_spelling(enum schema_form form);

/** The next of a member's words; start with *at at the first character of `words`. False: there is none left. */
bool schema_next_word(const char **at, struct bytes *word_out);
bool schema_has_word(const char *words, const char *word);

/** Appends a description of the member's values for people: "a whole number from 1 to 90". */
RESULT schema_say(const struct schema_member *member, struct buffer *buffer, struct error *err);

/** Checks that `value` is an object of `schema`. ERROR_INVALID names the member and its allowed values. */
RESULT schema_check(const struct schema *schema, const json_t *value, struct error *err);

#include "audit/format/search_terms.h"

#include <assert.h>
#include <string.h>

#include "base/uuid.h"
#include "crypto/digest.h"

static const struct field_row {
    const char *name;
    bool is_blind;
} fields[SEARCH_FIELD_COUNT] = {
#define X(field, name, blind) [SEARCH_##field] = {name, blind},
    SEARCH_FIELDS(X)
#undef X
};

const char *search_field_name(enum search_field field)
{
    assert((unsigned)field < SEARCH_FIELD_COUNT);
    return fields[field].name;
}

bool search_field_is_blind(enum search_field field)
{
    assert((unsigned)field < SEARCH_FIELD_COUNT);
    return fields[field].is_blind;
}

int64_t search_key(enum search_field field, struct bytes value)
{
    uint8_t text[16 + LEAF_RESOURCE_MAX], hash[SHA256_SIZE]; /* the longest name of a field, ':', a detail */
    const struct bytes name = bytes_of_text(search_field_name(field));

    assert(name.length + 1 + value.length <= sizeof text);
    memcpy(text, name.data, name.length);
    text[name.length] = ':';
    if (value.length > 0) memcpy(text + name.length + 1, value.data, value.length);
    sha256_of((struct bytes){text, name.length + 1 + value.length}, hash);
    return (int64_t)load_u64(hash);
}

static void add(struct search_terms *terms, enum search_field field, struct bytes value)
{
    if (value.length == 0) return;
    assert(terms->count < SEARCH_TERMS_MAX); /* the bounds of a leaf, and SEARCH_WORDS_MAX */
    const int64_t key = search_key(field, value);
    if (!search_terms_have(terms, key)) terms->keys[terms->count++] = key;
}

static bool begins(struct bytes text, const char *beginning)
{
    const size_t length = strlen(beginning);

    return text.length > length && memcmp(text.data, beginning, length) == 0;
}

static enum search_field kind_of_word(const char *action, struct bytes word)
{
    struct uuid ignored;

    if (begins(word, "sha256:") || begins(word, "sha512:")) return SEARCH_DIGEST;
    if (strncmp(action, "manifest.", 9) == 0 || strncmp(action, "tag.", 4) == 0) return SEARCH_TAG;
    if (strncmp(action, "run.", 4) == 0 && word.length == UUID_TEXT_SIZE - 1 && uuid_parse(word, &ignored)) return SEARCH_RUN;
    return SEARCH_DETAIL;
}

static void add_words(struct search_terms *terms, const char *action, const char *detail, size_t *words)
{
    while (*detail != '\0' && *words < SEARCH_WORDS_MAX) {
        const struct bytes word = {(const uint8_t *)detail, strcspn(detail, " ")};
        if (word.length > 0) {
            add(terms, kind_of_word(action, word), word);
            ++*words;
        }
        detail += word.length;
        detail += strspn(detail, " ");
    }
}

/* "a/b/c" is below "a", below "a/b", and below itself. */
static void add_prefixes(struct search_terms *terms, struct bytes name)
{
    size_t segments = 0;

    for (size_t i = 0; i < name.length && segments < SEARCH_SEGMENTS_MAX; i++)
        if (i + 1 == name.length || name.data[i + 1] == '/') {
            add(terms, SEARCH_PREFIX, (struct bytes){name.data, i + 1});
            segments++;
        }
}

static void add_target(struct search_terms *terms, const struct leaf_target *target, size_t *words)
{
    const struct bytes name = {(const uint8_t *)target->resource, strcspn(target->resource, "#")};

    add(terms, SEARCH_ACTION, bytes_of_text(target->action));
    add(terms, SEARCH_REGION, bytes_of_text(target->region));
    add(terms, SEARCH_RESOURCE, name);
    add_prefixes(terms, name);
    if (target->resource[name.length] == '#') add_words(terms, target->action, target->resource + name.length + 1, words);
}

void search_terms_of(const struct leaf *leaf, struct search_terms *terms_out)
{
    size_t words = 0;

    terms_out->count = 0;
    add(terms_out, SEARCH_ACTOR, bytes_of_text(leaf->actor));
    add(terms_out, SEARCH_OUTCOME, bytes_of_text(leaf->outcome));
    add(terms_out, SEARCH_DECISION, bytes_of_text(leaf->reason.decision));
    add(terms_out, SEARCH_REQUEST, bytes_of_text(leaf->request));
    for (size_t i = 0; i < leaf->reason.rule_count; i++) add(terms_out, SEARCH_RULE, bytes_of_text(leaf->reason.rules[i]));
    for (size_t i = 0; i < leaf->target_count; i++) add_target(terms_out, &leaf->targets[i], &words);
}

bool search_terms_have(const struct search_terms *terms, int64_t key)
{
    for (size_t i = 0; i < terms->count; i++)
        if (terms->keys[i] == key) return true;
    return false;
}

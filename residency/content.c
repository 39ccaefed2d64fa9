/* What lies in a project: a row for each digest in each repository, from the event that put it there to the one that removed it. */
#include <string.h>

#include "audit/action.h"
#include "residency/residency_priv.h"

#define DIGEST_MAX 136 /* "sha512:" and 128 digits */

/* The name and the words behind '#' of a target. */
struct subject {
    char name[LEAF_NAME_MAX + 1];
    const char *detail; /* "" if there is none */
};

static void read_subject(const struct leaf_target *target, struct subject *subject)
{
    const size_t length = strcspn(target->resource, "#");

    (void)snprintf(subject->name, sizeof subject->name, "%.*s", (int)length, target->resource);
    subject->detail = target->resource[length] == '#' ? target->resource + length + 1 : "";
}

/* The word with this number of the detail, if it is a digest. */
static bool read_digest(const char *detail, unsigned word, char digest_out[DIGEST_MAX])
{
    for (; word > 0; word--) {
        detail = strchr(detail, ' ');
        if (detail == NULL) return false;
        detail++;
    }
    const size_t length = strcspn(detail, " ");

    if (length >= DIGEST_MAX || (strncmp(detail, "sha256:", 7) != 0 && strncmp(detail, "sha512:", 7) != 0)) return false;
    (void)snprintf(digest_out, DIGEST_MAX, "%.*s", (int)length, detail);
    return true;
}

/* ---- what came ---- */

static struct result row_key(const struct subject *subject, const char *digest, const char *region, struct buffer *key,
                             struct error *err)
{
    return buffer_format(key, err, "%s\n%s\n%s", subject->name, digest, region);
}

/* A move brings blobs and manifests: of which kind it is stands in the row of the region that it comes from. */
static const char *kind_of(const struct residency *residency, const struct leaf *leaf, const struct subject *subject,
                           const char *digest)
{
    struct buffer OWNED_BUFFER key = BUFFER(LEAF_RESOURCE_MAX + LEAF_NAME_MAX + DIGEST_MAX);
    struct error ignored = {0}; /* the key is shorter than that */

    if (strncmp(leaf->targets[0].action, "manifest.", strlen("manifest.")) == 0) return "manifest";
    if (strcmp(leaf->targets[0].action, "move.write") != 0 || leaf->target_count < 2) return "blob";
    if (!row_key(subject, digest, leaf->targets[1].region, &key, &ignored).ok) return "blob";
    const char *kind = json_text_of(json_object_get(residency->found[TABLE_CONTENT], buffer_text(&key)), "kind");
    return kind == NULL ? "blob" : kind;
}

static struct result fill(const struct residency *residency, const struct leaf *leaf, const struct subject *subject,
                          const char *digest, json_t *row, struct error *err)
{
    TRY(residency_put_text(row, "repository", subject->name, err));
    TRY(residency_put_text(row, "digest", digest, err));
    TRY(residency_put_text(row, "kind", kind_of(residency, leaf, subject, digest), err));
    TRY(residency_put_text(row, "region", leaf->targets[0].region, err));
    TRY(residency_put_text(row, "set", leaf->reason.policy, err));
    TRY(residency_put_text(row, "#came", leaf->request, err));
    TRY(residency_put(row, "since", json_integer((json_int_t)leaf->sequence), err));
    return residency_put_time(row, "since_at", leaf->time_ms, err);
}

/* The same content may come again after it was removed: that is another row. */
static struct result arrive(struct residency *residency, const struct leaf *leaf, const struct leaf_target *target, unsigned word,
                            struct error *err)
{
    struct buffer OWNED_BUFFER key = BUFFER(LEAF_RESOURCE_MAX + LEAF_NAME_MAX + DIGEST_MAX);
    char digest[DIGEST_MAX];
    struct subject subject;
    json_t *row = NULL;

    read_subject(target, &subject);
    if (!read_digest(subject.detail, word, digest)) return SUCCESS;
    TRY(row_key(&subject, digest, target->region, &key, err));
    if (json_object_get(json_object_get(residency->found[TABLE_CONTENT], buffer_text(&key)), "until") != NULL)
        (void)json_object_del(residency->found[TABLE_CONTENT], buffer_text(&key));
    TRY(residency_row(residency, TABLE_CONTENT, buffer_text(&key), &row, err));
    return json_object_size(row) > 0 ? SUCCESS : fill(residency, leaf, &subject, digest, row, err);
}

/* A push that was permitted, and then failed, has brought nothing: an event `failed` of the same request says so. */
static struct result withdraw(struct residency *residency, const struct leaf *leaf, struct error *err)
{
    for (size_t i = json_array_size(residency->tables[TABLE_CONTENT]); i-- > 0 && leaf->request[0] != '\0';) {
        struct buffer OWNED_BUFFER key = BUFFER(LEAF_RESOURCE_MAX + LEAF_NAME_MAX + DIGEST_MAX);
        const json_t *row = json_array_get(residency->tables[TABLE_CONTENT], i);
        struct subject subject = {.detail = ""};
        if (strcmp(json_text_of(row, "#came"), leaf->request) != 0) continue;
        (void)snprintf(subject.name, sizeof subject.name, "%s", json_text_of(row, "repository"));
        TRY(row_key(&subject, json_text_of(row, "digest"), json_text_of(row, "region"), &key, err));
        if (json_object_get(residency->found[TABLE_CONTENT], buffer_text(&key)) == row)
            (void)json_object_del(residency->found[TABLE_CONTENT], buffer_text(&key));
        (void)json_array_remove(residency->tables[TABLE_CONTENT], i);
    }
    return SUCCESS;
}

/* ---- what went ---- */

static bool is_inside(const char *name, const char *outer)
{
    const size_t length = strlen(outer);

    return strncmp(name, outer, length) == 0 && (name[length] == '\0' || name[length] == '/');
}

/* `digest` NULL: everything under the name. */
static bool is_meant(const json_t *row, const struct subject *subject, const char *digest, const char *region)
{
    if (!is_inside(json_text_of(row, "repository"), subject->name)) return false;
    if (region[0] != '\0' && strcmp(json_text_of(row, "region"), region) != 0) return false;
    return digest == NULL || strcmp(json_text_of(row, "digest"), digest) == 0;
}

/* A removal takes the name away; a destruction of the key takes the bytes away, and is the later of the two. */
static struct result end_row(const struct residency *residency, const struct leaf *leaf, json_t *row, struct error *err)
{
    const bool destroys = strcmp(leaf->targets[0].action, "key.forgotten") == 0;

    if (destroys && json_object_get(row, "destroyed") != NULL) return SUCCESS;
    if (!destroys && json_object_get(row, "until") != NULL) return SUCCESS;
    if (destroys) {
        TRY(residency_put(row, "destroyed", json_integer((json_int_t)leaf->sequence), err));
        TRY(residency_put_time(row, "destroyed_at", leaf->time_ms, err));
        if (json_object_get(row, "until") != NULL) return SUCCESS;
    }
    TRY(residency_put(row, "until", json_integer((json_int_t)leaf->sequence), err));
    TRY(residency_put_time(row, "until_at", leaf->time_ms, err));
    TRY(residency_put_text(row, "removed_by", leaf->targets[0].action, err));
    TRY(residency_put_text(row, "#request", leaf->request, err));
    return residency_put(row, "#early", json_boolean(!residency_is_in_period(residency, leaf)), err);
}

static struct result depart(struct residency *residency, const struct leaf *leaf, bool is_whole, struct error *err)
{
    const struct leaf_target *target = &leaf->targets[0];
    char digest[DIGEST_MAX];
    struct subject subject;
    json_t *row = NULL;
    size_t i = 0;

    read_subject(target, &subject);
    if (!is_whole && !read_digest(subject.detail, 0, digest)) return SUCCESS;
    json_array_foreach (residency->tables[TABLE_CONTENT], i, row)
        if (is_meant(row, &subject, is_whole ? NULL : digest, target->region)) TRY(end_row(residency, leaf, row, err));
    return SUCCESS;
}

/* A removal that was permitted, and then undone: an event `failed` of the same request says so. */
static void undo(struct residency *residency, const struct leaf *leaf)
{
    static const char *const members[] = {"until", "until_at", "removed_by", "#request", "#early"};
    json_t *row = NULL;
    size_t i = 0;

    json_array_foreach (residency->tables[TABLE_CONTENT], i, row) {
        const char *request = json_text_of(row, "#request");
        if (request == NULL || leaf->request[0] == '\0' || strcmp(request, leaf->request) != 0) continue;
        for (size_t member = 0; member < sizeof members / sizeof members[0]; member++)
            (void)json_object_del(row, members[member]);
    }
}

struct result residency_take_content(struct residency *residency, const struct leaf *leaf, struct error *err)
{
    static const struct {
        const char *action, *outcome;
        unsigned word;
    } comes[] = {{"manifest.push", "allowed", 0},   {"manifest.promote", "allowed", 0}, {"blob.mount", "allowed", 0},
                 {"upload.commit", "completed", 1}, {"upload.begin", "completed", 1},   {"copy.write", "completed", 0},
                 {"move.write", "completed", 0}};
    static const struct {
        const char *action;
        bool is_whole;
    } goes[] = {{"manifest.delete", false},    {"manifest.collect", false}, {"manifest.expire", false},
                {"blob.delete", false},        {"blob.collect", false},     {"key.forgotten", false},
                {"copy.withdraw", false},      {"repository.delete", true}, {"project.delete", true},
                {"organisation.delete", true}, {"project.left", true}};
    const struct leaf_target *target = &leaf->targets[0];

    for (size_t i = 0; i < sizeof comes / sizeof comes[0]; i++) {
        if (strcmp(target->action, comes[i].action) != 0) continue;
        if (strcmp(leaf->outcome, comes[i].outcome) == 0) return arrive(residency, leaf, target, comes[i].word, err);
        if (strcmp(leaf->outcome, "failed") == 0) return withdraw(residency, leaf, err);
    }
    for (size_t i = 0; i < sizeof goes / sizeof goes[0]; i++) {
        if (strcmp(target->action, goes[i].action) != 0) continue;
        if (strcmp(leaf->outcome, "failed") == 0) undo(residency, leaf);
        else if (strcmp(leaf->outcome, "allowed") == 0) return depart(residency, leaf, goes[i].is_whole, err);
    }
    return SUCCESS;
}

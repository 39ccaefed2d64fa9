#include "detection/copies_priv.h"

#include <stdio.h>
#include <string.h>

#include "crypto/digest.h"
#include "detection/detection_store_priv.h"

bool copy_is_trivial(const char *digest)
{
    static const char *const trivial[] = {
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", /* nothing */
        "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", /* {}: the empty config (image-spec, manifest.md) */
        "sha512:27c74670adb75075fad058d5ceaf7b20c4e7786c83bae8a32f626f9782af34c9a33c2046ef60fd2a7878d378e29fec851806bbd9a67878f3a9f1cda"
        "4830763fd",                                                               /* {} */
        "sha256:a3ed95caeb02ffe68cdd9fd84406680ae93d633cb16422d00e8a7c22955b46d4", /* Docker's empty layer */
        "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef", /* the same, not compressed */
    };

    for (size_t i = 0; i < sizeof trivial / sizeof trivial[0]; i++)
        if (strcmp(digest, trivial[i]) == 0) return true;
    return false;
}

/* What has come: "acme/models/digits#UPLOAD sha256:...", or "acme/models/digits#sha256:... v1". */
struct arrival {
    char name[LEAF_NAME_MAX + 1], digest[DIGEST_TEXT_SIZE];
    bool is_manifest; /* a label may have come with it: all places count, also those that are younger than its blobs */
};

static bool read_arrival(const struct leaf *leaf, struct arrival *arrival)
{
    const char *resource = leaf->targets[0].resource, *hash = strchr(resource, '#'),
               *digest = hash == NULL ? NULL : strstr(hash, "sha");

    if (digest == NULL || (digest != hash + 1 && digest[-1] != ' ') || hash - resource > LEAF_NAME_MAX) return false;
    const size_t length = strcspn(digest, " ");
    if (length >= sizeof arrival->digest || memchr(digest, ':', length) == NULL) return false;
    arrival->is_manifest = strncmp(leaf->targets[0].action, "manifest.", strlen("manifest.")) == 0;
    (void)snprintf(arrival->name, sizeof arrival->name, "%.*s", (int)(hash - resource), resource);
    (void)snprintf(arrival->digest, sizeof arrival->digest, "%.*s", (int)length, digest);
    return true;
}

static struct result lacks(const struct copy_source *source, const struct copy_place *place, const struct copy_place *other,
                           bool *lacks_out, struct error *err)
{
    return source->labels->lacks(source->labels->context, place->name, other->name, lacks_out, err);
}

/* All places of one blob, and the one to which it has come. */
struct copies {
    const struct copy_source *source;
    const struct pg_rows *rows;
    struct copy_place own;
    bool all_count;
};

/* Many have the bytes without that label: they are no secret of those that have it. Projects are counted once. */
static struct result are_common(const struct copies *copies, const struct copy_place *stricter, bool *common_out,
                                struct error *err)
{
    struct uuid projects[COPY_COMMON + 1];
    size_t count = 0;

    for (size_t i = 0; i < detection_place_count(copies->rows) && count <= COPY_COMMON; i++) {
        const struct copy_place place = detection_place_of(copies->rows, i);
        bool is_known = false, is_laxer = false;
        for (size_t j = 0; j < count; j++) is_known = is_known || uuid_equal(&projects[j], &place.project);
        if (!is_known) TRY(lacks(copies->source, &place, stricter, &is_laxer, err));
        if (is_laxer) projects[count++] = place.project;
    }
    *common_out = count > COPY_COMMON;
    return SUCCESS;
}

static struct result compare(const struct copies *copies, const struct copy_place *place, const struct copy_place **stricter_out,
                             const struct copy_place **laxer_out, struct error *err)
{
    bool own_lacks = false, place_lacks = false;

    TRY(lacks(copies->source, &copies->own, place, &own_lacks, err));
    if (!own_lacks) TRY(lacks(copies->source, place, &copies->own, &place_lacks, err));
    *stricter_out = own_lacks ? place : place_lacks ? &copies->own : NULL;
    *laxer_out = own_lacks ? &copies->own : place;
    return SUCCESS;
}

static struct result look_at(const struct copies *copies, char copy[LAXER_COPY_SIZE], struct error *err)
{
    char one[UUID_TEXT_SIZE], other[UUID_TEXT_SIZE];
    size_t asked = 0;

    for (size_t i = 0; i < detection_place_count(copies->rows) && copy[0] == '\0' && asked < COPY_STRICT_MAX; i++) {
        const struct copy_place place = detection_place_of(copies->rows, i), *stricter = NULL, *laxer = NULL;
        bool is_common = false;
        if (uuid_equal(&place.repository, &copies->own.repository)) continue;
        if (place.since_us > copies->own.since_us && !copies->all_count)
            break; /* what came later has its own event, and is its actor's act */
        TRY(compare(copies, &place, &stricter, &laxer, err));
        if (stricter == NULL) continue;
        TRY(are_common(copies, stricter, &is_common, err));
        asked++;
        if (is_common) continue;
        uuid_format(&stricter->repository, one);
        uuid_format(&laxer->repository, other);
        (void)snprintf(copy, LAXER_COPY_SIZE, "stricter=%s laxer=%s", one, other);
    }
    return SUCCESS;
}

static struct result look_for(const struct copy_source *source, const struct arrival *arrival, const char *digest,
                              char copy[LAXER_COPY_SIZE], struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    bool is_there = false;

    if (copy_is_trivial(digest)) return SUCCESS;
    TRY(detection_places(source->pg, digest, &rows, err));
    struct copies copies = {.source = source, .rows = rows, .all_count = arrival->is_manifest};
    for (size_t i = 0; i < detection_place_count(rows) && !is_there; i++) {
        copies.own = detection_place_of(rows, i);
        is_there = strcmp(copies.own.name, arrival->name) == 0;
    }
    return is_there ? look_at(&copies, copy, err) : SUCCESS; /* else it was deleted since */
}

struct result known_copy_of(const struct copy_source *source, const struct leaf *leaf, struct event_known *known,
                            struct error *err)
{
    OWNED(pg_rows) *blobs = NULL;
    struct arrival arrival;

    known->copy[0] = '\0';
    if (!read_arrival(leaf, &arrival)) return SUCCESS;
    if (!arrival.is_manifest) return look_for(source, &arrival, arrival.digest, known->copy, err);
    TRY(detection_labelled_blobs(source->pg, arrival.name, arrival.digest, &blobs, err));
    for (size_t i = 0; i < detection_place_count(blobs) && known->copy[0] == '\0'; i++)
        TRY(look_for(source, &arrival, detection_blob_at(blobs, i), known->copy, err));
    return SUCCESS;
}

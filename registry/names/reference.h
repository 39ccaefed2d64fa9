/*
 * registry/names/reference.h -- names of repositories and tags, and the secret names of upload sessions.
 *
 * Rule: nothing from outside becomes part of a statement, a path or an answer before one of these accepted it.
 * All checks are pure, allocate nothing, and take any bytes. Digests are crypto/digest.h's.
 * OCI Distribution Specification 1.1.1, "Pulling manifests": the grammar of <name> and <reference>.
 */
#pragma once

#include "base/bytes.h"
#include "base/uuid.h"

#define REPOSITORY_SEGMENTS_MAX 32
#define REPOSITORY_PATH_MAX     200 /* below the project, as the table has it */
#define SCOPE_NAME_MAX          63  /* of an organisation or a project */
#define TAG_MAX                 128

/** "organisation/project/path..."; views of the text that was split. */
struct repository_name {
    struct bytes organisation, project, path;
};

/**
 * OCI's grammar, at least three segments, at most REPOSITORY_SEGMENTS_MAX, 255 bytes in all; organisation and
 * project may be no longer than SCOPE_NAME_MAX and have single separators only. ERROR_INVALID says what is wrong.
 */
RESULT repository_name_split(struct bytes text, struct repository_name *name_out, struct error *err);

/** A name of one organisation or one project: [a-z0-9]+([._-][a-z0-9]+)*, at most SCOPE_NAME_MAX bytes. */
bool scope_name_is_valid(struct bytes text);

/** [a-zA-Z0-9_][a-zA-Z0-9._-]{0,127} */
bool tag_is_valid(struct bytes text);

/**
 * "sha256-..." of "sha256:...": the tag that clients keep a list of referrers under where a registry has no such list
 * (specification, "Referrers Tag Schema": 32 letters of the algorithm, 64 of what it made). `digest` is well-formed.
 */
void referrers_tag(const char *digest, char tag_out[TAG_MAX + 1]);

/**
 * The last segment of an upload's Location: "<uuid>.<43 letters of base64url>". Only the uuid may be shown or
 * logged; the secret proves that the caller was given the Location.
 */
#define UPLOAD_SECRET_SIZE   32
#define UPLOAD_LOCATION_SIZE (36 + 1 + 43 + 1) /* with '\0' */

struct upload_location {
    struct uuid upload;
    uint8_t secret[UPLOAD_SECRET_SIZE]; /* the caller wipes it */
};

/** False for any other form, so also for a uuid alone. */
bool upload_location_parse(struct bytes text, struct upload_location *location_out);
void upload_location_format(const struct upload_location *location, char text_out[UPLOAD_LOCATION_SIZE]);

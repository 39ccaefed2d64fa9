/*
 * registry/copies/copying_store.h -- copies that are missing, that are being written, and that are there: the tables `copying`, `blob` and `repository_blob`.
 */
#pragma once

#include "registry/blob_row.h"
#include "registry/copies/copy_request.h"
#include "registry/registry.h"
#include "storage/blob.h"

#define COPY_LINKS_MAX 64 /* repositories that have one blob; a blob that more have is not copied */
#define COPY_PAGE_MAX  32 /* blobs */

/** Where copies of a project go, from its home. */
struct copy_way {
    struct uuid organisation, project;
    char name[RESOURCE_NAME_MAX + 1];
    char from[REGION_ID_MAX + 1], to[REGION_ID_MAX + 1];
    bool is_move; /* `to` becomes the home: what no manifest refers to goes there, too */
};

/** A blob in the home region that lacks its copy, or a copy that is there. */
struct copy_item {
    struct blob_row row; /* of the blob at home; of a copy: its own */
    char digest[DIGEST_TEXT_SIZE];
    int64_t created_ms;
    bool is_begun; /* of a blob at home: something of its copy was written */
    bool
        is_damaged; /* of a copy: its bytes do not verify, and nothing is known against those at home. Of a lent blob: its own do not */
    bool is_last_sound; /* of a copy: what is at home is damaged, and no other copy is sound */
};
/** A repository that has the blob. */
struct copy_link {
    struct uuid repository;
    char name[RESOURCE_NAME_MAX + 1];
    bool is_copied; /* the copy has this link, too */
};
struct copy_links {
    size_t count; /* COPY_LINKS_MAX + 1: there are more */
    struct copy_link links[COPY_LINKS_MAX + 1];
};

/** Sound blobs at home that a manifest refers to, or for a move all that a repository has, and that have no copy, after `after`, by digest: at most COPY_PAGE_MAX. */
RESULT copy_missing(struct pg *pg, const struct copy_way *way, const char *after, struct copy_item items_out[COPY_PAGE_MAX],
                    size_t *count_out, struct error *err);
/** Copies that are there, likewise. */
RESULT copy_present(struct pg *pg, const struct copy_way *way, const char *after, struct copy_item items_out[COPY_PAGE_MAX],
                    size_t *count_out, struct error *err);
/**
 * The blob at home, damaged or not, whose copy is wanted in the region of the request; *way_out and *item_out are written if it is found. What no manifest refers to is not
 * found.
 */
RESULT copy_lent_find(struct pg *pg, const struct copy_request *request, struct copy_way *way_out, struct copy_item *item_out,
                      bool *found_out, struct error *err);
/** The repositories that have the digest at home; if none has, those that have the copy. */
RESULT copy_links_find(struct pg *pg, const struct copy_way *way, const char *digest, struct copy_links *links_out,
                       struct error *err);

struct copying_row {
    struct key_record key; /* its id is that of the copy */
    uint64_t writer_epoch;
    struct blob_checkpoint checkpoint; /* sequence 0: none */
};
/** Makes the caller the writer of a copy that was begun. *there_out is false, and nothing else written, if none was. */
RESULT copying_claim(struct pg *pg, const struct resource *where, struct copying_row *row_out, bool *there_out,
                     struct error *err);
/** ERROR_CONFLICT: somebody else has begun it. */
RESULT copying_insert(struct pg *pg, const struct resource *where, const struct copying_row *row, struct error *err);
/** ERROR_CONFLICT: another writer has it. */
RESULT copying_save(struct pg *pg, const struct copying_row *row, struct error *err);
/** The row goes, and its object may be removed at once. ERROR_CONFLICT: another writer has it, and its object stays. */
RESULT copying_delete(struct pg *pg, const struct uuid *blob, uint64_t writer_epoch, struct error *err);
/** All that was begun for this project and region; likewise. */
RESULT copying_delete_all(struct pg *pg, const struct copy_way *way, struct error *err);
/** What was begun for one digest; likewise. */
RESULT copying_delete_one(struct pg *pg, const struct copy_way *way, const char *digest, struct error *err);
/** What was begun for content that is not at home any more, or that is not to be copied; likewise. */
RESULT copying_delete_unwanted(struct pg *pg, const struct copy_way *way, struct error *err);

/** For changes: the copy is there from now on. */
struct copy_commit {
    const struct resource *where; /* of the copy */
    struct blob_row fresh;
    uint64_t writer_epoch;
    struct uuid source;             /* the blob at home */
    const struct copy_links *links; /* that were decided: the blob must have exactly these */
    bool is_move;                   /* a push that goes on finds its blobs there: they are kept as long as at home */
};
/**
 * ERROR_CONFLICT: the blob at home is gone or has other repositories now, or no copies are wanted there any more, or another writer has the copy; ERROR_DENIED:
 * the quota has no room.
 */
RESULT copy_row_commit(struct pg *pg, const struct copy_commit *commit, struct error *err);
/** For changes: the copy gets the link of one more repository. ERROR_CONFLICT: the copy is gone. */
RESULT copy_row_link(struct pg *pg, const struct uuid *copy, const struct copy_way *way, const struct uuid *repository,
                     const char *digest, struct error *err);
/** For changes: the copy goes with its key, now. ERROR_CONFLICT: it is gone, or is no copy. */
RESULT copy_row_withdraw(struct pg *pg, const struct uuid *copy, struct error *err);
/** Has the quota room for so much more? */
RESULT copy_has_room(struct pg *pg, const struct uuid *project, uint64_t bytes, bool *has_room_out, struct error *err);

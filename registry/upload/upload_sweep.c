#include "registry/upload/abandoned_store.h"

#include "registry/registry_priv.h"

/* The row is deleted only after the driver has removed all bytes, so after a failure the removal is tried again. */
bool upload_sweep(struct registry *registry, struct pg *pg, const struct abandoned_object *object)
{
    struct blob_store *blobs = NULL;
    struct error ignored = {0};

    return registry_blobs(registry, object->region, &blobs, &ignored).ok && blob_remove(blobs, &object->blob, &ignored).ok &&
           abandoned_forget(pg, &object->blob, &ignored).ok;
}

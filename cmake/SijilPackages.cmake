# Every library that is not ours: the version that we build and test against is the minimum.
# Debian 12 ships each of these, and is what all tests run on.
sijil_package(JANSSON jansson>=2.14)               # JSON_REJECT_DUPLICATES, json_error_code()
sijil_package(P11KIT p11-kit-1>=0.24)              # PKCS#11 2.40: the headers for sijil-keyd, which loads its module with dlopen; URIs and modules for the client
sijil_package(OPENSSL openssl>=3.0)                # EVP fetch, EVP_KDF HKDF, provider-based keys
sijil_package(SODIUM libsodium>=1.0.18)            # sodium_malloc, XChaCha20-Poly1305, Ed25519
sijil_package(LIBPQ libpq>=15)                     # pipeline mode (14), server 15 in --embedded
sijil_package(MICROHTTPD libmicrohttpd>=0.9.75)    # suspend/resume with an epoll thread pool
sijil_package(GNUTLS gnutls>=3.7.9)                # TLS 1.3, per-session credentials for reload
sijil_package(OAUTH2 liboauth2>=1.4.5)             # signature checks of external tokens
sijil_package(CJOSE cjose>=0.6.2)                  # needed by liboauth2's headers
sijil_package(CONFUSE libconfuse>=3.3)             # sijild.conf, with the line of an error
sijil_package(SECCOMP libseccomp>=2.5.4)           # sijil-keyd's system call filter
sijil_package(CURL libcurl>=7.88)                  # the client's HTTP, and calls to object stores: TLS 1.3 alone, limits on idle time, CURLOPT_PROTOCOLS_STR (7.85)
sijil_package(EXPAT expat>=2.5)                    # XML answers of object stores; bounds on entities (2.4), a small parser without I/O
sijil_package(YAML yaml-0.1>=0.2.5)                # specifications of runs that people write; its events, and the line of each

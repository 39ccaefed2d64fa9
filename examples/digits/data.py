"""usage: data.py FOLDER   Makes FOLDER/digits.csv of the 1,797 pictures that come with scikit-learn: 64 pixels (0 to 16) and the digit a line."""
import os
import sys

import numpy as np
from sklearn.datasets import load_digits

if len(sys.argv) != 2:
    sys.exit(__doc__)
pictures = load_digits()
os.makedirs(sys.argv[1], exist_ok=True)
np.savetxt(os.path.join(sys.argv[1], "digits.csv"), np.column_stack([pictures.data, pictures.target]), fmt="%d", delimiter=",")

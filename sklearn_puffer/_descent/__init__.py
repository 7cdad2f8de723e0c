"""What stands behind the SGD estimators: the guarantee and the steps of a noisy descent."""

from sklearn_puffer._descent.descent import Descent, Logistic, Squares, scale_rows
from sklearn_puffer._descent.estimators import PufferfishSGDClassifier, PufferfishSGDRegressor
from sklearn_puffer._descent.guarantee import Dependence, Iteration

import './base.css';
import './history.css';
import './diff.css';
import './cells.css';
